"""The operator's settings, from environment variables."""

import os
import re
import socket
from collections.abc import Mapping

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.ir.reserved import HEALTH_PORT
from varnish_gateway.runtime import environment as env
from varnish_gateway.runtime.environment import Address

SHORTEST_LEASE_SECONDS = 3.0
LONGEST_CLASS_NAME = 228
ROLLOUTS_AT_ONCE = 5
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
DEFAULT_IMAGE = "ghcr.io/varnish/varnish-gateway:latest"


class OperatorSettings(Struct, frozen=True, kw_only=True):
    """``namespace`` and ``identity`` are those of the operator's own pod."""

    class_name: str = "varnish"
    image: str = DEFAULT_IMAGE
    image_pull_secrets: tuple[str, ...] = ()
    chaperone_role: str = "varnish-gateway-chaperone"
    namespace: str = "varnish-gateway-system"
    identity: str = "vgw"
    leader_election: bool = True
    lease_seconds: float = 15.0
    rollouts_at_once: int = ROLLOUTS_AT_ONCE
    metrics: Address = Address("", 8080)
    health: Address = Address("", 8081)
    invalidation: Address | None = None  # where clients invalidate; nowhere unless set
    chaperone_port: int = HEALTH_PORT  # where the chaperones of the pods answer
    log_level: str = "INFO"


def from_environment(environment: Mapping[str, str]) -> OperatorSettings:
    """Read every variable of the operator; an empty value is an absent one."""
    default = OperatorSettings()
    return OperatorSettings(
        class_name=_class_name(environment.get("GATEWAY_CLASS_NAME") or default.class_name),
        image=environment.get("GATEWAY_IMAGE") or default.image,
        image_pull_secrets=_pull_secrets(environment),
        chaperone_role=environment.get("CHAPERONE_CLUSTER_ROLE") or default.chaperone_role,
        namespace=environment.get("POD_NAMESPACE") or default.namespace,
        identity=environment.get("POD_NAME") or f"{socket.gethostname()}-{os.getpid()}",
        leader_election=env.flag(environment, "LEADER_ELECTION", default=True),
        lease_seconds=_lease_seconds(environment, default.lease_seconds),
        rollouts_at_once=_rollouts(environment, default.rollouts_at_once),
        metrics=env.address(environment, "METRICS_ADDR", ":8080"),
        health=env.address(environment, "HEALTH_ADDR", ":8081"),
        invalidation=_invalidation(environment),
        log_level=env.log_level(environment),
    )


def _invalidation(environment: Mapping[str, str]) -> Address | None:
    is_served = bool(environment.get("INVALIDATION_ADDR"))
    return env.address(environment, "INVALIDATION_ADDR", ":8082") if is_served else None


def _pull_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    found = env.words(environment, "IMAGE_PULL_SECRETS")
    for name in found:
        if not _NAME.fullmatch(name):
            raise errors.BadSettings(f"IMAGE_PULL_SECRETS: {name!r} is not a name that a Secret can have")
    return found


def _lease_seconds(environment: Mapping[str, str], default: float) -> float:
    seconds = env.seconds(environment, "LEASE_SECONDS", default)
    if seconds < SHORTEST_LEASE_SECONDS:
        raise errors.BadSettings(f"LEASE_SECONDS: {seconds:g} is too short; write {SHORTEST_LEASE_SECONDS:g} or more")
    return seconds


def _rollouts(environment: Mapping[str, str], default: int) -> int:
    value = environment.get("ROLLOUTS_AT_ONCE") or str(default)
    if not value.isascii() or not value.isdigit() or not int(value):
        raise errors.BadSettings(f"ROLLOUTS_AT_ONCE: {value!r} is not a number of Gateways; write 1 or more")
    return int(value)


def _class_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise errors.BadSettings(f"GATEWAY_CLASS_NAME: {name!r} is not a name that a GatewayClass can have")
    if len(name) > LONGEST_CLASS_NAME:
        raise errors.BadSettings(
            f"GATEWAY_CLASS_NAME: {len(name)} characters are too many for the name of a Lease; use {LONGEST_CLASS_NAME}"
        )
    return name
