"""The Kubernetes that tests run on: a cluster of one node, and an API server without nodes."""
