"""``vgw translate``: what files come to, without serving them."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from varnish_gateway.cli.terminal import Paint
from varnish_gateway.standalone.translation import Translation, translate_files
from varnish_gateway.standalone.verdicts import faults

if TYPE_CHECKING:
    from varnish_gateway.api import Key

_DESCRIPTION = """\
Translate Gateway API manifests and print what they come to: the status of every object,
and for every Gateway its listeners, its routes and its VCL. Nothing is started.

The exit status is 1 if a document is refused or an object is not accepted; what is wrong
goes to stderr.
"""

_EXAMPLES = """\
examples:
  vgw translate cafe.yaml
  vgw translate -o json conf.d | jq '.statuses'
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "translate",
        help="print statuses, routing and VCL of files",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("paths", nargs="+", metavar="PATH", help="manifest, or directory with manifests")
    command.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml", help="format (default: yaml)")
    command.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    """Print the translation; return 1 if anything in it is not accepted."""
    translation = translate_files(arguments.paths)
    document = _document(translation)
    if arguments.output == "json":
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        print(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120), end="")
    sys.stdout.flush()
    return complain(translation)


def complain(translation: Translation) -> int:
    """Print what is wrong to stderr; return 1 if there is anything."""
    paint = Paint(sys.stderr)
    for ignored in translation.changes.ignored:
        print(f"{paint('yellow', 'warning:')} {ignored}", file=sys.stderr)
    wrong = [str(complaint) for complaint in translation.changes.complaints]
    for key, status in sorted(translation.statuses.items()):
        wrong += [f"{key}: {fault}" for fault in faults(status)]
    for line in wrong:
        print(f"{paint('red', 'error:')} {line}", file=sys.stderr)
    return 1 if wrong else 0


def _document(translation: Translation) -> dict[str, Any]:
    return {
        "statuses": [
            {**_named(key), "status": msgspec.to_builtins(status)}
            for key, status in sorted(translation.statuses.items())
        ],
        "gateways": [
            {
                **_named(key),
                "listen": gateway.listen,
                "listeners": msgspec.to_builtins(gateway.listeners),
                "routes": msgspec.to_builtins(gateway.routes),
                **({"tls": msgspec.to_builtins(gateway.tls)} if gateway.tls else {}),
                **({"vcl": gateway.vcl} if gateway.vcl is not None else {}),
            }
            for key, gateway in sorted(translation.gateways.items())
        ],
    }


def _named(key: "Key") -> dict[str, str]:
    return {name: value for name, value in key._asdict().items() if value}


class _Dumper(yaml.CSafeDumper):
    """YAML as a person would write it: text of several lines as a block."""


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(tuple, lambda dumper, items: dumper.represent_list(items))
