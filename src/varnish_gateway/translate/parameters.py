"""What a GatewayClassParameters says.

In:   the object, and the view for the ConfigMap with user VCL.
Out:  ir.Parameters and user VCL, or the first problem with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from varnish_gateway import api, ir
from varnish_gateway.translate.conditions import Problem

if TYPE_CHECKING:
    from varnish_gateway.api.varnish import ConfigMapRef, ParametersSpec
    from varnish_gateway.translate.view import View

OWN_ARGUMENTS = ("-M", "-S", "-F", "-f", "-n")
"""Arguments of varnishd that the chaperone sets itself."""
LOGGING_MODES = ("varnishlog", "varnishlog-json", "varnishncsa")


class Configured(Struct, frozen=True):
    """What a class asks for. With a problem, whatever is in force stays: there are no parameters then."""

    parameters: ir.Parameters | None
    user_vcl: ir.UserVcl | ir.UserVclUnavailable | None = None
    problem: Problem | None = None


def read(parameters: api.GatewayClassParameters, view: View) -> Configured:
    """Return what the parameters ask for."""
    spec = parameters.spec
    vcl = _user_vcl(spec.user_vcl_config_map_ref, view) if spec.user_vcl_config_map_ref else None
    problem = _refused_argument(spec) or _refused_logging(spec)
    if problem is None and isinstance(vcl, ir.UserVclUnavailable):
        problem = _invalid(vcl.reason)
    logging = ir.Logging(spec.logging.mode, spec.logging.format, spec.logging.extra_args) if spec.logging else None
    if problem is not None:
        return Configured(None, vcl, problem)
    return Configured(ir.Parameters(spec.varnishd_extra_args, logging), vcl)


def _user_vcl(ref: ConfigMapRef, view: View) -> ir.UserVcl | ir.UserVclUnavailable:
    source = f"ConfigMap {ref.namespace}/{ref.name}, key {ref.key}"
    config_map = view.find(api.ConfigMap, ref.namespace, ref.name)
    if config_map is None:
        return ir.UserVclUnavailable(
            source, f"userVCLConfigMapRef: ConfigMap {ref.namespace}/{ref.name} does not exist"
        )
    text = config_map.data.get(ref.key)
    if text is None:
        return ir.UserVclUnavailable(
            source, f"userVCLConfigMapRef: ConfigMap {ref.namespace}/{ref.name} has no key {ref.key}"
        )
    return ir.UserVcl(source, text)


def _refused_argument(spec: ParametersSpec) -> Problem | None:
    for argument in spec.varnishd_extra_args:
        if argument.startswith(OWN_ARGUMENTS):
            return _invalid(f"varnishdExtraArgs: {argument[:2]} is set by the gateway itself; remove it")
    return None


def _refused_logging(spec: ParametersSpec) -> Problem | None:
    if spec.logging is None or spec.logging.mode in LOGGING_MODES:
        return None
    return _invalid(f"logging.mode: {spec.logging.mode} is not one of {', '.join(LOGGING_MODES)}")


def _invalid(message: str) -> Problem:
    return Problem("InvalidParameters", message)
