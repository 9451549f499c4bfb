"""Validate GatewayClassParameters.

In:   the object, and the view for the ConfigMap with user VCL.
Out:  ir.Parameters and user VCL, or the first problem with them.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api, ir
from varnish_gateway.api.varnish import ListenerSetParameters
from varnish_gateway.ir.reserved import OWN_ARGUMENTS
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway import pod_extras
from varnish_gateway.translate.gateway.storage import invalid_storage

if TYPE_CHECKING:
    from varnish_gateway.api.varnish import ConfigMapRef, ParametersSpec
    from varnish_gateway.translate.incremental.view import View

LOGGING_MODES = ("varnishlog", "varnishlog-json", "varnishncsa")


class Configured(Struct, frozen=True):
    """What a class configures. With a problem there are no parameters: the last valid ones stay in force.

    ``listener_sets`` apply even then: a mistake elsewhere in the parameters opens no port.
    """

    parameters: ir.Parameters | None
    user_vcl: ir.UserVcl | ir.UserVclUnavailable | None = None
    problem: Problem | None = None
    listener_sets: ListenerSetParameters = ListenerSetParameters()


def validate_parameters(
    parameters: api.GatewayClassParameters, view: View, *, vcl_limit: int | None = None
) -> Configured:
    """Return what the parameters configure."""
    spec = parameters.spec
    vcl = _user_vcl(spec.user_vcl_config_map_ref, view, vcl_limit) if spec.user_vcl_config_map_ref else None
    checks = (
        _invalid_argument,
        _invalid_logging,
        _invalid_scaling,
        pod_extras.clash,
        invalid_storage,
        _invalid_forwarding,
        _invalid_purgers,
    )
    problem = next((found for check in checks if (found := check(spec)) is not None), None)
    if problem is None and isinstance(vcl, ir.UserVclUnavailable):
        problem = vcl.reason
    if problem is not None:
        return Configured(None, vcl, Problem("InvalidParameters", problem), spec.listener_sets)
    return Configured(spec.without_user_vcl(), vcl, listener_sets=spec.listener_sets)


def _user_vcl(ref: ConfigMapRef, view: View, limit: int | None) -> ir.UserVcl | ir.UserVclUnavailable:
    source = f"ConfigMap {ref.namespace}/{ref.name}, key {ref.key}"
    config_map = view.find(api.ConfigMap, ref.namespace, ref.name)
    if config_map is None:
        return _unavailable(source, f"ConfigMap {ref.namespace}/{ref.name} does not exist")
    text = config_map.data.get(ref.key)
    if text is None:
        return _unavailable(source, f"ConfigMap {ref.namespace}/{ref.name} has no key {ref.key}")
    if limit is not None and (size := len(text.encode())) > limit:
        return _unavailable(source, f"{source} has {size:,} bytes; the limit is {limit:,}; make it smaller")
    return ir.UserVcl(source, text)


def _unavailable(source: str, reason: str) -> ir.UserVclUnavailable:
    return ir.UserVclUnavailable(source, f"userVCLConfigMapRef: {reason}")


def _invalid_argument(spec: ParametersSpec) -> str | None:
    for argument in spec.varnishd_extra_args:
        if argument.startswith(OWN_ARGUMENTS):
            return f"varnishdExtraArgs: {argument[:2]} is set by the gateway itself; remove it"
        if ";" in argument:
            return f"varnishdExtraArgs: {argument} holds a semicolon, which separates arguments; remove it"
    return None


def _invalid_forwarding(spec: ParametersSpec) -> str | None:
    forwarding = spec.forwarding
    if forwarding.trusted_hops is not None and forwarding.trusted_ranges:
        return "forwarding: proxies are trusted by number or by address; remove trustedHops or trustedRanges"
    return _invalid_ranges("forwarding.trustedRanges", forwarding.trusted_ranges)


def _invalid_purgers(spec: ParametersSpec) -> str | None:
    field = "invalidation.methods.allowedSourceRanges"
    return _invalid_ranges(field, spec.invalidation.methods.allowed_source_ranges)


def _invalid_ranges(field: str, ranges: tuple[str, ...]) -> str | None:
    for text in ranges:
        try:
            ip_network(text)
        except ValueError:
            return f"{field}: {text} is no range of addresses; write for example 10.0.0.0/8"
        if "/" not in text:
            return f"{field}: {text} has no length; write {text}/{ip_network(text).max_prefixlen}"
    return None


def _invalid_logging(spec: ParametersSpec) -> str | None:
    if spec.logging is None or spec.logging.mode in LOGGING_MODES:
        return None
    return f"logging.mode: {spec.logging.mode} is not one of {', '.join(LOGGING_MODES)}"


def _invalid_scaling(spec: ParametersSpec) -> str | None:
    if spec.autoscaling is None:
        return None
    if spec.replicas is not None:
        return "replicas: autoscaling decides how many pods there are; remove one of the two"
    if spec.autoscaling.min_replicas > spec.autoscaling.max_replicas:
        return "autoscaling: minReplicas is greater than maxReplicas; lower it"
    asked = spec.resources
    if asked is not None and not any("cpu" in (asked.get(kind) or {}) for kind in ("requests", "limits")):
        return "autoscaling: the autoscaler needs the CPU request of a pod; add resources.requests.cpu"
    return None
