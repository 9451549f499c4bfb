"""Typed objects that come in: only the fields that we read; data only."""

from varnish_gateway.api.core import ConfigMap, Namespace, Secret, Service
from varnish_gateway.api.discovery import EndpointSlice
from varnish_gateway.api.gateway_networking import (
    BackendTLSPolicy,
    Gateway,
    GatewayClass,
    HTTPRoute,
    ListenerSet,
    ReferenceGrant,
)
from varnish_gateway.api.meta import Key, Object, key_of
from varnish_gateway.api.varnish import GatewayClassParameters, VarnishCacheInvalidation, VarnishCachePolicy

__all__ = [
    "BackendTLSPolicy",
    "ConfigMap",
    "EndpointSlice",
    "Gateway",
    "GatewayClass",
    "GatewayClassParameters",
    "HTTPRoute",
    "Key",
    "ListenerSet",
    "Namespace",
    "Object",
    "ReferenceGrant",
    "Secret",
    "Service",
    "VarnishCacheInvalidation",
    "VarnishCachePolicy",
    "key_of",
]
