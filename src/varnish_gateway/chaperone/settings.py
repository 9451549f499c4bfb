"""What a chaperone is told from outside.

In:   environment variables (``from_environment``), or values given by standalone mode.
Out:  one frozen Settings. A value that can't be used raises BadSettings, which names the
variable and what to write instead.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.chaperone.sockets import Sockets, parse_http_address, parse_listen

REFUSED_ARGUMENTS = ("-M", "-S", "-F", "-f", "-n")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class Address(NamedTuple):
    """Where an HTTP server of ours listens; an empty host is every address."""

    host: str
    port: int


class Settings(Struct, frozen=True, kw_only=True):
    """Only ``work_dir`` has no default that suits everyone."""

    work_dir: Path
    varnish_dir: Path | None = None  # varnishd's own directory (-n); work_dir/varnishd unless told
    ghost_config_path: Path | None = None  # work_dir/ghost/ghost.json unless told
    admin_port: int = 0
    sockets: Sockets
    storage: tuple[str, ...] = ("malloc,256m",)
    extra_args: tuple[str, ...] = ()
    vcl_dirs: tuple[Path, ...] = ()  # where VCL may include from, besides varnishd's own
    drain_seconds: float = 25.0
    health: Address | None = None
    dashboard: Address | None = None
    vcl_path: Path | None = None
    routing_path: Path | None = None
    endpoints_path: Path | None = None
    tls_cert_dir: Path | None = None
    namespace: str = "default"
    configmap_name: str = ""
    gateway_name: str = ""
    pod_name: str = ""
    log_level: str = "INFO"


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read every variable of the chaperone; an empty value is an absent one."""
    env = {name: value for name, value in environment.items() if value}
    work_dir = Path(env.get("WORK_DIR", "/var/run/varnish"))
    vcl_path = Path(env.get("VCL_PATH", work_dir / "main.vcl"))
    return Settings(
        work_dir=work_dir,
        varnish_dir=_path(env, "VARNISH_DIR"),
        ghost_config_path=Path(env.get("GHOST_CONFIG_PATH", work_dir / "ghost.json")),
        admin_port=_port(env, "VARNISH_ADMIN_PORT", 6082),
        sockets=_sockets(env),
        storage=_words(env.get("VARNISH_STORAGE", "malloc,256m")),
        extra_args=extra_arguments(env.get("VARNISHD_EXTRA_ARGS", "")),
        vcl_dirs=(vcl_path.parent,),
        drain_seconds=_seconds(env, "DRAIN_SECONDS", 25.0),
        health=_address(env, "HEALTH_ADDR", ":8081"),
        dashboard=_address(env, "DASHBOARD_ADDR", "127.0.0.1:9000"),
        vcl_path=vcl_path,
        routing_path=Path(env.get("ROUTING_CONFIG_PATH", "/etc/varnish/routing.json")),
        endpoints_path=_path(env, "ENDPOINTS_PATH"),
        tls_cert_dir=_path(env, "TLS_CERT_DIR"),
        namespace=env.get("NAMESPACE", "default"),
        configmap_name=env.get("CONFIGMAP_NAME", ""),
        gateway_name=env.get("GATEWAY_NAME", ""),
        pod_name=env.get("POD_NAME", ""),
        log_level=_log_level(env.get("LOG_LEVEL", "info")),
    )


def extra_arguments(value: str) -> tuple[str, ...]:
    """Split VARNISHD_EXTRA_ARGS at semicolons and refuse what the chaperone sets itself."""
    words = _words(value)
    for word in words:
        if word[:2] in REFUSED_ARGUMENTS:
            raise errors.BadSettings(f"VARNISHD_EXTRA_ARGS: {word[:2]} belongs to the chaperone; leave it out")
    return words


def _sockets(env: Mapping[str, str]) -> Sockets:
    if "VARNISH_LISTEN" in env:
        return parse_listen(env["VARNISH_LISTEN"])
    return parse_http_address(env.get("VARNISH_HTTP_ADDR", ":80"))


def _words(value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(";") if word.strip())


def _path(env: Mapping[str, str], variable: str) -> Path | None:
    return Path(env[variable]) if variable in env else None


def _port(env: Mapping[str, str], variable: str, default: int) -> int:
    value = env.get(variable, str(default))
    if not value.isdigit() or int(value) > 65535:
        raise errors.BadSettings(f"{variable}: {value!r} is not a port; write a number from 0 (any free port) to 65535")
    return int(value)


def _address(env: Mapping[str, str], variable: str, default: str) -> Address:
    value = env.get(variable, default)
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise errors.BadSettings(f"{variable}: {value!r} is not an address; write host:port or :port, e.g. {default}")
    return Address(host.strip("[]"), int(port))


def _seconds(env: Mapping[str, str], variable: str, default: float) -> float:
    value = env.get(variable, str(default))
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 86400:
        raise errors.BadSettings(f"{variable}: {value!r} is not a number of seconds; write e.g. {default:g}")
    return seconds


def _log_level(value: str) -> str:
    level = {"WARN": "WARNING"}.get(value.upper(), value.upper())
    if level not in LOG_LEVELS:
        raise errors.BadSettings(f"LOG_LEVEL: {value!r} is not a level; write debug, info, warning or error")
    return level
