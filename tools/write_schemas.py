"""Write docs/reference/schema/*.json, the JSON Schemas of the wire format, from ``ir.wire``."""

import json
from pathlib import Path

import msgspec

from varnish_gateway.ir import wire

DIRECTORY = Path(__file__).parent.parent / "docs" / "reference" / "schema"
DOCUMENTS = {
    "routing": wire.Routing,
    "index": wire.Index,
    "fresh": wire.Fresh,
    "endpoints": wire.Endpoints,
    "manifest": wire.Manifest,
    "tls": wire.TlsDocument,
}


def schemas() -> dict[str, str]:
    """Return the text of each schema file by its name."""
    return {f"{name}.json": json.dumps(msgspec.json.schema(kind), indent=2) + "\n" for name, kind in DOCUMENTS.items()}


if __name__ == "__main__":
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (DIRECTORY / name).write_text(text)
