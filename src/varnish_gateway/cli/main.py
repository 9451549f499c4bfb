"""The command line ``vgw``: one module for each command."""

import argparse
import signal
import sys
from collections.abc import Sequence

from varnish_gateway import errors
from varnish_gateway.cli import chaperone, explain, operator, run, translate
from varnish_gateway.cli.terminal import Paint
from varnish_gateway.version import VERSION

COMMANDS = (run, translate, explain, operator, chaperone)

_EXAMPLES = """\
examples:
  vgw run examples/cafe                                    serve the files, follow every edit
  vgw translate examples/cafe                              what do they come to?
  vgw explain examples/cafe GET http://cafe.example.com:8080/tea
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="vgw",
        description="Varnish Gateway: the Kubernetes Gateway API on Varnish Cache.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"vgw {VERSION}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit status."""
    arguments = parser().parse_args(argv)
    try:
        status: int = arguments.execute(arguments)
    except errors.GatewayError as error:
        hint = f" ({error.hint})" if error.hint else ""
        print(f"{Paint(sys.stderr)('red', 'vgw:')} {error}{hint}", file=sys.stderr)
        return 2 if isinstance(error, errors.BadSettings) else 1
    except KeyboardInterrupt:  # before a command has handlers of its own
        return 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output went away; nothing to add
        return 1
    return status
