"""``vgw run``: serve files."""

import argparse
from pathlib import Path

from varnish_gateway.cli.options import Commands, add_log_format, add_log_level, add_paths, address

_DESCRIPTION = """\
Serve Gateway API manifests on this machine. vgw starts one varnishd for each Gateway and applies
every change of the files. Routes, weights, endpoints and user VCL change without a lost request;
a change of a listener's port restarts the varnishd of that Gateway.

An invalid document is reported and changes nothing: the previous configuration keeps serving
until the file is corrected. Ctrl-C drains connections and stops; a second Ctrl-C stops at once.
SIGHUP reads all files again.

A VarnishCacheInvalidation in the files is carried out once, and again when its spec is edited.
"""

_EXAMPLES = """\
examples:
  vgw run examples/cafe
  vgw run gateway.yaml routes.d --log-format json
  vgw run shop.d --health-addr 127.0.0.1:8081 --invalidation-tokens tokens.json
"""


def add_to(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "run",
        help="serve manifests on this machine and apply every change of the files",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_paths(command)
    command.add_argument(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help="working directory of varnishd, for one instance only (default: a temporary directory)",
    )
    command.add_argument(
        "--health-addr",
        type=address,
        metavar="HOST:PORT",
        help="serve /health, /ready and /metrics (default: off)",
    )
    command.add_argument(
        "--invalidation-tokens",
        type=Path,
        metavar="FILE",
        help="tokens of clients for `vgw purge` and `vgw explain --live` (default: off; needs --health-addr)",
    )
    add_log_format(command, "text")
    add_log_level(command)
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    import asyncio

    from varnish_gateway.runtime import logs
    from varnish_gateway.standalone.run import run_files
    from varnish_gateway.standalone.workdir import work_directory

    logs.set_up(log_format=arguments.log_format, level=arguments.log_level)
    health, tokens = arguments.health_addr, arguments.invalidation_tokens
    with work_directory(arguments.work_dir) as directory:
        return asyncio.run(run_files(arguments.paths, directory, health, tokens))
