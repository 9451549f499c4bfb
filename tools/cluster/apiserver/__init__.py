"""An API server with its etcd, without nodes."""
