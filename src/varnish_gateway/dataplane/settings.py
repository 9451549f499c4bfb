"""Settings of a data plane.

In:   environment variables and how much memory there is (``from_environment``), or values given by standalone mode.
Out:  one frozen Settings. A value that can't be used raises BadSettings, which names the
variable and what to write instead.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.api.varnish import MetricsParameters
from varnish_gateway.dataplane.process.memory import Memory
from varnish_gateway.dataplane.process.sizing import (
    DEFAULT_STORE,
    default_store_of_a_machine,
    memory_of_a_machine,
    memory_of_a_pod,
    sized,
)
from varnish_gateway.dataplane.process.sockets import Sockets, parse_http_address, parse_listen
from varnish_gateway.ir.reserved import ADMIN_PORT, DASHBOARD_PORT, HEALTH_PORT, OWN_ARGUMENTS
from varnish_gateway.runtime import environment as read
from varnish_gateway.runtime.environment import Address

DRAIN_DELAY_SECONDS = 5.0
"""In a cluster: how long load balancers may still send new connections to an unready pod."""
NOT_KNOWN = Memory()
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Settings(Struct, frozen=True, kw_only=True):
    """Only ``work_dir`` and ``sockets`` have no default that suits everyone.

    A ``configmap_name`` means that the configuration comes from a cluster and not from files.
    """

    work_dir: Path
    varnish_dir: Path | None = None  # varnishd's own directory (-n); default: work_dir/varnishd
    ghost_config_path: Path | None = None  # default: work_dir/ghost/ghost.json
    admin_port: int = 0
    sockets: Sockets
    storage: tuple[str, ...] = ("malloc,256m",)
    extra_args: tuple[str, ...] = ()
    vcl_dirs: tuple[Path, ...] = ()  # where VCL may include from, besides varnishd's own
    drain_seconds: float = 25.0
    drain_delay_seconds: float = 0.0  # of these, how long new connections are still expected
    health: Address | None = None
    invalidation_tokens: Path | None = None  # who may invalidate over the health address
    dashboard: Address | None = None
    cached_routes: int = MetricsParameters().cached_routes
    vcl_path: Path | None = None
    routing_path: Path | None = None
    endpoints_path: Path | None = None
    tls_cert_dir: Path | None = None
    namespace: str = "default"
    configmap_name: str = ""
    secret_name: str = ""
    gateway_name: str = ""
    pod_name: str = ""
    log_level: str = "INFO"

    @property
    def cdn_id(self) -> str:
        """The identifier of the Gateway in CDN-Loop. All its pods have the same."""
        return f"{self.gateway_name}.{self.namespace}.varnish-gateway" if self.gateway_name else "varnish-gateway"


def from_environment(environment: Mapping[str, str], memory: Memory = NOT_KNOWN) -> Settings:
    """Read every variable of the chaperone; an empty value is an absent one."""
    env = {name: value for name, value in environment.items() if value}
    work_dir = Path(env.get("WORK_DIR", "/var/run/varnish"))
    vcl_path = Path(env.get("VCL_PATH", work_dir / "main.vcl"))
    configmap_name = _object_name(env, "CONFIGMAP_NAME")
    drain_seconds, drain_delay_seconds = _drain(env, in_cluster=bool(configmap_name))
    return Settings(
        work_dir=work_dir,
        varnish_dir=_path(env, "VARNISH_DIR"),
        ghost_config_path=Path(env.get("GHOST_CONFIG_PATH", work_dir / "ghost.json")),
        admin_port=_port(env, "VARNISH_ADMIN_PORT", ADMIN_PORT),
        sockets=_sockets(env),
        storage=_storage(env, memory, in_cluster=bool(configmap_name)),
        extra_args=extra_arguments(env.get("VARNISHD_EXTRA_ARGS", "")),
        vcl_dirs=(vcl_path.parent,),
        drain_seconds=drain_seconds,
        drain_delay_seconds=drain_delay_seconds,
        health=read.address(env, "HEALTH_ADDR", f":{HEALTH_PORT}"),
        invalidation_tokens=_path(env, "INVALIDATION_TOKENS_FILE"),
        cached_routes=_cached_routes(env),
        dashboard=read.address(env, "DASHBOARD_ADDR", f"127.0.0.1:{DASHBOARD_PORT}"),
        vcl_path=vcl_path,
        routing_path=Path(env.get("ROUTING_CONFIG_PATH", "/etc/varnish/routing.json")),
        endpoints_path=_path(env, "ENDPOINTS_PATH"),
        tls_cert_dir=_path(env, "TLS_CERT_DIR"),
        namespace=_object_name(env, "NAMESPACE") or "default",
        configmap_name=configmap_name,
        secret_name=_object_name(env, "SECRET_NAME"),
        gateway_name=env.get("GATEWAY_NAME", ""),
        pod_name=env.get("POD_NAME", ""),
        log_level=read.log_level(env),
    )


def extra_arguments(value: str) -> tuple[str, ...]:
    """Split VARNISHD_EXTRA_ARGS at semicolons; raise BadSettings for arguments that the chaperone sets itself."""
    words = read.words({"VARNISHD_EXTRA_ARGS": value}, "VARNISHD_EXTRA_ARGS", separator=";")
    for word in words:
        if word[:2] in OWN_ARGUMENTS:
            raise errors.BadSettings(f"VARNISHD_EXTRA_ARGS: {word[:2]} belongs to the chaperone; leave it out")
    return words


def _sockets(env: Mapping[str, str]) -> Sockets:
    if "VARNISH_LISTEN" in env:
        return parse_listen(env["VARNISH_LISTEN"])
    return parse_http_address(env.get("VARNISH_HTTP_ADDR", ":80"))


def _storage(env: Mapping[str, str], memory: Memory, *, in_cluster: bool) -> tuple[str, ...]:
    """Return varnishd's stores, with shares of memory as bytes."""
    request = _memory_request(env)
    size = memory_of_a_pod(memory, request) if in_cluster else memory_of_a_machine(memory)
    default = DEFAULT_STORE if in_cluster else default_store_of_a_machine(memory)
    return tuple(sized(store, size) for store in read.words(env, "VARNISH_STORAGE", default, separator=";"))


def _memory_request(env: Mapping[str, str]) -> int | None:
    value = env.get("MEMORY_REQUEST", "0")
    if not value.isdecimal():
        raise errors.BadSettings(f"MEMORY_REQUEST: {value!r} is not a number of bytes; write e.g. 536870912")
    return int(value) or None


def _cached_routes(env: Mapping[str, str]) -> int:
    value = env.get("METRICS_CACHED_ROUTES", str(MetricsParameters().cached_routes))
    if not value.isdecimal():
        raise errors.BadSettings(f"METRICS_CACHED_ROUTES: {value!r} is not a number of routes; write e.g. 1000")
    return int(value)


def _path(env: Mapping[str, str], variable: str) -> Path | None:
    return Path(env[variable]) if variable in env else None


def _port(env: Mapping[str, str], variable: str, default: int) -> int:
    value = env.get(variable, str(default))
    if not value.isdecimal() or int(value) > 65535:
        raise errors.BadSettings(f"{variable}: {value!r} is not a port; write a number from 0 (any free port) to 65535")
    return int(value)


def _drain(env: Mapping[str, str], *, in_cluster: bool) -> tuple[float, float]:
    """Return how long draining takes at most, and how much of that new connections may still come."""
    whole = read.seconds(env, "DRAIN_SECONDS", 25.0)
    delay = read.seconds(env, "DRAIN_DELAY_SECONDS", min(DRAIN_DELAY_SECONDS, whole) if in_cluster else 0.0)
    if delay > whole:
        raise errors.BadSettings(
            f"DRAIN_DELAY_SECONDS: {delay:g} is more than DRAIN_SECONDS, which is {whole:g}; write at most {whole:g}"
        )
    return whole, delay


def _object_name(env: Mapping[str, str], variable: str) -> str:
    """Return the name of an object of Kubernetes, which becomes a part of URLs."""
    name = env.get(variable, "")
    if name and not _OBJECT_NAME.fullmatch(name):
        raise errors.BadSettings(
            f"{variable}: {name!r} is not the name of an object; write lower case letters, digits, '-' and '.'"
        )
    return name
