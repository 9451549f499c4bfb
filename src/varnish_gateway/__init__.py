"""Varnish Gateway: the Kubernetes Gateway API on Varnish Cache."""
