"""TLS in front of varnishd: HAProxy, its certificates, and how they change while it serves."""
