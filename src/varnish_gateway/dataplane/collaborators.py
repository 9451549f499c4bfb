"""The parts that a data plane works with.

``assemble`` builds the production set; unit tests build their own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from varnish_gateway.dataplane.desired import DesiredConfiguration
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.ghost.draining import begin_drain
from varnish_gateway.dataplane.ghost.reload import GhostInstaller
from varnish_gateway.dataplane.ghost.resolve import Resolver
from varnish_gateway.dataplane.process import drain
from varnish_gateway.dataplane.retry import FaultRetry
from varnish_gateway.dataplane.tls.terminator import TlsTerminator
from varnish_gateway.dataplane.varnish.cli import Admin
from varnish_gateway.dataplane.varnish.supervisor import Supervisor
from varnish_gateway.dataplane.varnish.vcl import VclLoader


class Collaborators(Struct, frozen=True, kw_only=True):
    """A collaborator that has work for the next pass sets ``work``."""

    bus: Bus
    work: asyncio.Event
    desired: DesiredConfiguration
    admin: Admin
    supervisor: Supervisor
    vcl: VclLoader
    ghost: GhostInstaller
    resolver: Resolver
    terminator: TlsTerminator
    retry: FaultRetry
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    begin_drain: Callable[[int], Awaitable[None]] = begin_drain
    until_idle: Callable[[set[int], float], Awaitable[None]] = drain.until_idle
