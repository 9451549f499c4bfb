"""What a GatewayClassParameters says.

In:   the object, and the view for the ConfigMap with user VCL.
Out:  ir.Parameters and user VCL, or the first problem with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway import api, ir
from varnish_gateway.ir.reserved import OWN_ARGUMENTS
from varnish_gateway.translate.conditions import Problem
from varnish_gateway.translate.gateway import pod_extras

if TYPE_CHECKING:
    from varnish_gateway.api.varnish import ConfigMapRef, ParametersSpec
    from varnish_gateway.translate.incremental.view import View

LOGGING_MODES = ("varnishlog", "varnishlog-json", "varnishncsa")


class Configured(Struct, frozen=True):
    """What a class asks for. With a problem, whatever is in force stays: there are no parameters then."""

    parameters: ir.Parameters | None
    user_vcl: ir.UserVcl | ir.UserVclUnavailable | None = None
    problem: Problem | None = None


def read(parameters: api.GatewayClassParameters, view: View, *, vcl_limit: int | None = None) -> Configured:
    """Return what the parameters ask for."""
    spec = parameters.spec
    vcl = _user_vcl(spec.user_vcl_config_map_ref, view, vcl_limit) if spec.user_vcl_config_map_ref else None
    refusal = _refused_argument(spec) or _refused_logging(spec) or _refused_scaling(spec) or pod_extras.clash(spec)
    if refusal is None and isinstance(vcl, ir.UserVclUnavailable):
        refusal = vcl.reason
    if refusal is not None:
        return Configured(None, vcl, Problem("InvalidParameters", refusal))
    return Configured(_understood(spec), vcl)


def _understood(spec: ParametersSpec) -> ir.Parameters:
    """Return the parameters for those who carry them out; fields have the same names there."""
    fields = {name: getattr(spec, name) for name in ir.Parameters.__struct_fields__}
    fields["service"] = ir.ServiceParameters(**structs.asdict(spec.service))
    if spec.logging is not None:
        fields["logging"] = ir.Logging(**structs.asdict(spec.logging))
    if spec.autoscaling is not None:
        fields["autoscaling"] = ir.Autoscaling(**structs.asdict(spec.autoscaling))
    return ir.Parameters(**fields)


def _user_vcl(ref: ConfigMapRef, view: View, limit: int | None) -> ir.UserVcl | ir.UserVclUnavailable:
    source = f"ConfigMap {ref.namespace}/{ref.name}, key {ref.key}"
    config_map = view.find(api.ConfigMap, ref.namespace, ref.name)
    if config_map is None:
        return _unavailable(source, f"ConfigMap {ref.namespace}/{ref.name} does not exist")
    text = config_map.data.get(ref.key)
    if text is None:
        return _unavailable(source, f"ConfigMap {ref.namespace}/{ref.name} has no key {ref.key}")
    if limit is not None and (size := len(text.encode())) > limit:
        return _unavailable(source, f"{source} has {size:,} bytes, and {limit:,} are possible; make it smaller")
    return ir.UserVcl(source, text)


def _unavailable(source: str, reason: str) -> ir.UserVclUnavailable:
    return ir.UserVclUnavailable(source, f"userVCLConfigMapRef: {reason}")


def _refused_argument(spec: ParametersSpec) -> str | None:
    for argument in spec.varnishd_extra_args:
        if argument.startswith(OWN_ARGUMENTS):
            return f"varnishdExtraArgs: {argument[:2]} is set by the gateway itself; remove it"
        if ";" in argument:
            return f"varnishdExtraArgs: {argument} holds a semicolon, which separates arguments; remove it"
    return None


def _refused_logging(spec: ParametersSpec) -> str | None:
    if spec.logging is None or spec.logging.mode in LOGGING_MODES:
        return None
    return f"logging.mode: {spec.logging.mode} is not one of {', '.join(LOGGING_MODES)}"


def _refused_scaling(spec: ParametersSpec) -> str | None:
    if spec.autoscaling is None:
        return None
    if spec.replicas is not None:
        return "replicas: autoscaling decides how many pods there are; remove one of the two"
    if spec.autoscaling.min_replicas > spec.autoscaling.max_replicas:
        return "autoscaling: minReplicas is greater than maxReplicas; lower it"
    asked = spec.resources
    if asked is not None and not any("cpu" in (asked.get(kind) or {}) for kind in ("requests", "limits")):
        return "autoscaling: it reckons with the CPU that a pod asks for; add resources.requests.cpu"
    return None
