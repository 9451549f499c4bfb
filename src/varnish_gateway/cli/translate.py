"""``vgw translate``: print what files translate to, without serving them."""

import argparse
import sys

from varnish_gateway.cli.complaints import print_complaints
from varnish_gateway.cli.options import Commands, add_paths

_DESCRIPTION = """\
Translate Gateway API manifests and print the result: the status of every object, and the
listeners, routes and VCL of every Gateway. Nothing is started.

Errors go to stderr. The exit status is 1 if a document is invalid or an object is not accepted.
"""

_EXAMPLES = """\
examples:
  vgw translate cafe.yaml
  vgw translate -o json conf.d | jq '.statuses'
"""


def add_to(commands: "Commands[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "translate",
        help="print the statuses, routing and VCL that manifests translate to",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_paths(command)
    command.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="format (default: yaml)")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the translation; return 1 if a document is invalid or an object is not accepted."""
    from varnish_gateway.standalone.document import as_json, as_yaml
    from varnish_gateway.standalone.translation import translate_files

    translation = translate_files(arguments.paths)
    print((as_json if arguments.output == "json" else as_yaml)(translation), end="")
    sys.stdout.flush()
    return print_complaints(translation)
