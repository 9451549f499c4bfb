"""The filters of HTTPRoute, one file each; rule_filters.py combines them."""
