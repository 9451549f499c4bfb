"""Build a data plane with its production collaborators.

In:   Settings.
Out:  a DataPlane that is ready to start; its work directory exists. Tests build Collaborators themselves.
"""

import asyncio
from collections.abc import Mapping

from varnish_gateway.dataplane import quarantine
from varnish_gateway.dataplane.collaborators import Collaborators
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.desired import DesiredConfiguration
from varnish_gateway.dataplane.events import Bus
from varnish_gateway.dataplane.ghost.reload import GhostInstaller
from varnish_gateway.dataplane.ghost.resolve import Resolver
from varnish_gateway.dataplane.process import landlock
from varnish_gateway.dataplane.process.sockets import fits
from varnish_gateway.dataplane.process.workdir import prepare
from varnish_gateway.dataplane.quarantine import Quarantine
from varnish_gateway.dataplane.retry import FaultRetry
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.tls.machine import account
from varnish_gateway.dataplane.tls.terminator import TlsTerminator, is_installed
from varnish_gateway.dataplane.varnish.cli import Admin
from varnish_gateway.dataplane.varnish.supervisor import Supervisor
from varnish_gateway.dataplane.varnish.varnishd import Command
from varnish_gateway.dataplane.varnish.vcl import VclLoader


def assemble(settings: Settings) -> DataPlane:
    """Return the data plane of one gateway on this machine."""
    return DataPlane(settings, collaborators(settings))


def collaborators(settings: Settings) -> Collaborators:
    """Return the production collaborators of a data plane."""
    bus, work, layout = Bus(), asyncio.Event(), prepare(settings)
    admin = Admin(layout.secret)
    opens_later = is_installed() and fits(layout.work_dir)
    desired = DesiredConfiguration(settings.sockets, settings.extra_args, opens_later=opens_later)

    def on_addresses(resolved: Mapping[str, tuple[str, ...]]) -> None:
        desired.resolve(resolved)
        work.set()

    return Collaborators(
        bus=bus,
        work=work,
        desired=desired,
        admin=admin,
        supervisor=Supervisor(
            settings,
            layout,
            admin,
            bus,
            work.set,
            rejected=Quarantine[Command](work.set, quarantine.COSTLY),
            proxy_user=account(),
            unfenced=landlock.missing(),
        ),
        vcl=VclLoader(admin, layout.vcl_dir, Quarantine[str](work.set, quarantine.ROUTINE)),
        ghost=GhostInstaller(
            layout.ghost_config_path,
            rejected=Quarantine[str](work.set, quarantine.ROUTINE),
            deadly=Quarantine[str](work.set, quarantine.COSTLY),
        ),
        resolver=Resolver(on_addresses),
        terminator=TlsTerminator(layout, bus, settings.drain_seconds),
        retry=FaultRetry(bus, work.set),
    )
