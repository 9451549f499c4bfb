"""A translation as one document, for users and scripts.

In:   Translation.
Out:  YAML or JSON text with the status of every object, and the listeners, routes and VCL of every Gateway.
Pure. Keys and certificates stay out of it.
"""

import json
from typing import Any

import msgspec
import yaml

from varnish_gateway.api import Key
from varnish_gateway.standalone.translation import Translation


def as_json(translation: Translation) -> str:
    return json.dumps(_document(translation), indent=2, ensure_ascii=False) + "\n"


def as_yaml(translation: Translation) -> str:
    return yaml.dump(_document(translation), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


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


def _named(key: Key) -> dict[str, str]:
    return {name: value for name, value in key._asdict().items() if value}


class _Dumper(yaml.CSafeDumper):
    """Writes multi-line text as a block."""


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(tuple, lambda dumper, items: dumper.represent_list(items))
