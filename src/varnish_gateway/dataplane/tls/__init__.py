"""The TLS terminator: HAProxy, its certificates, and how they change while it serves."""
