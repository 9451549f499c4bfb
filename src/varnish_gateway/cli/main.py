"""The command line ``vgw``.

Each command has a module, which defines its arguments and imports its code only in ``execute``: the
code of a command costs ten times as much to import as the command line itself.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from varnish_gateway import errors
from varnish_gateway.cli import chaperone, explain, operator, purge, run, translate
from varnish_gateway.runtime.terminal import Paint
from varnish_gateway.version import VERSION

COMMANDS = (run, translate, explain, purge, operator, chaperone)

_EXAMPLES = """\
examples:
  vgw run examples/cafe                                    serve the files, apply every edit
  vgw translate examples/cafe                              print what they translate to
  vgw explain examples/cafe GET http://cafe.example.com:8080/tea
                                                           name the rule that matches a request
  vgw purge --token-file token https://cafe.example.com/tea
                                                           remove a page from the cache
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
    except KeyboardInterrupt:  # before the command installed its own handlers
        return 128 + signal.SIGINT
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone; Python would complain about it at exit
        return 1
    return status
