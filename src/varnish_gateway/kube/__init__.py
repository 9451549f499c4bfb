"""A thin Kubernetes client: connection, requests, reflectors, leases, Events."""
