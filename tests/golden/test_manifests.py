"""The Gateway of each ``manifests-…/in.yaml`` comes to exactly the objects of its out.yaml.

``pytest --update-golden`` writes out.yaml; read the difference before you commit it.
"""

from pathlib import Path

import msgspec
import pytest
import yaml

from support.builders.golden_manifests import INSTALLATION, documents, shape_of
from varnish_gateway import ir
from varnish_gateway.decoding import decode
from varnish_gateway.emit import manifests

CASES = sorted(Path(__file__).parent.glob("manifests-*/in.yaml"))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.parent.name)
def test_manifests_match_golden(case: Path, update_golden: bool) -> None:
    out = case.with_name("out.yaml")
    got = msgspec.json.decode(msgspec.json.encode(made_of(case)))
    if update_golden:
        out.write_text(yaml.safe_dump_all(got, sort_keys=False, default_flow_style=None, width=120))
    assert got == list(yaml.safe_load_all(out.read_text()))


def test_every_case_has_a_description() -> None:
    assert all(case.read_text().startswith("# ") for case in CASES)


def made_of(case: Path) -> list[dict]:
    objects = [decode(document) for document in documents(case)]
    shape = shape_of(objects)
    return [
        *manifests.objects(shape, INSTALLATION).values(),
        manifests.secret(shape, ir.Tls()),
        *manifests.bindings(shape, ("shop", "stock"), INSTALLATION).values(),
        manifests.config_map(shape, "vcl 4.1;\n", 1),
        manifests.routing_map(shape, b'{"version":2}\n', b'{"version":2,"shards":["","0123456789abcdef"]}'),
        manifests.shard_map(shape, 1, b'{"version":2,"shard":1}\n'),
    ]
