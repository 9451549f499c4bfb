"""``vgw chaperone``: varnishd and its configuration in one pod, as the environment says."""

import argparse
import asyncio
import os

from varnish_gateway.chaperone.run import run_chaperone
from varnish_gateway.chaperone.settings import from_environment
from varnish_gateway.cli import logs

_DESCRIPTION = """\
Start and supervise one varnishd, and keep it at the configuration that files give it. All
settings come from the environment.

  VARNISH_LISTEN         sockets: name=address:port,http joined with ";"
  VCL_PATH               main.vcl
  ROUTING_CONFIG_PATH    routing.json
  GHOST_CONFIG_PATH      where ghost.json is written, or read where there is no routing
  WORK_DIR               where varnishd works
  VARNISH_ADMIN_PORT, VARNISH_STORAGE, VARNISHD_EXTRA_ARGS, HEALTH_ADDR, LOG_LEVEL, …
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "chaperone",
        help="run one varnishd from plain files, set up by the environment",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("--log-format", choices=("text", "json"), default="json", help="default: json")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Run until a signal ends it."""
    settings = from_environment(os.environ)
    logs.set_up(log_format=arguments.log_format, level=settings.log_level)
    return asyncio.run(run_chaperone(settings))
