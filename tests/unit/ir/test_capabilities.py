"""Whatever the previous version doesn't know has a capability."""

import re
from types import ModuleType

import msgspec
import pytest

from support import previous
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.emit.withholding import ROUTES
from varnish_gateway.ir import wire
from varnish_gateway.ir.capabilities import ALL, CAPABILITIES, LATER_PORTS

DOCUMENTS = ("Routing", "Index", "Fresh", "TlsDocument")
"""What the operator writes and pods read. The others stay within a pod, whose programs are of one version."""
GUARDED = {field for capability in CAPABILITIES.values() for field in capability.fields}
VCC = "ghost/vmod-ghost/ghost.vcc"
REMEDY = "add a capability for it to ir/capabilities.py, and to emit/withholding.py how to do without it"


def fields_of(module: ModuleType) -> dict[str, object]:
    """Return every field of the documents with its JSON Schema, as Struct.field."""
    documents = [getattr(module, name) for name in DOCUMENTS]
    _, structs = msgspec.json.schema_components(documents, ref_template="{name}")
    return {
        f"{struct}.{field}": schema
        for struct, found in structs.items()
        for field, schema in found.get("properties", {}).items()
    }


def unguarded(now: dict[str, object], before: dict[str, object]) -> list[str]:
    """Return the fields that pods of the previous version can't read."""
    return sorted(name for name, schema in now.items() if before.get(name) != schema and name not in GUARDED)


def functions(vcc: str) -> dict[str, str]:
    """Return the functions of the VMOD with their signatures."""
    return {found[2]: found[0] for found in re.finditer(r"\$Function (\w+) (\w+)\(.*\)", vcc)}


def test_field_that_the_previous_version_does_not_know_has_a_capability():
    assert unguarded(fields_of(wire), fields_of(previous.wire())) == [], REMEDY


@pytest.mark.parametrize(
    "change",
    [{"Rule.share": {"type": "integer"}}, {"PathMatch.type": {"enum": ["exact", "prefix", "regex", "glob"]}}],
    ids=["new field", "new value"],
)
def test_forgotten_addition_is_noticed(change):
    now = {**fields_of(wire), **change}
    assert unguarded(now, fields_of(previous.wire())) == list(change)


def test_capabilities_name_fields_that_exist():
    assert fields_of(wire).keys() >= GUARDED


def test_capability_for_routes_says_how_to_do_without_it():
    of_routes = {name for name, one in CAPABILITIES.items() if not any(field.startswith("Req") for field in one.fields)}
    assert ROUTES.keys() == of_routes - {LATER_PORTS.name}, "ports are no part of a route"


def test_names_can_be_listed_in_an_annotation():
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in ALL)


def test_previous_ghost_has_every_function_of_the_frame():
    """main.vcl is the same for all pods of a Gateway, and chosen by the capability cache-policies."""
    called = set(re.findall(r"\bghost\.(\w+)\(", main_vcl(caching=False)))
    assert called
    assert called <= functions(previous.text(VCC)).keys(), (
        "pods of the previous version can't compile this: give main_vcl what all pods understand"
    )


def test_functions_of_the_previous_frame_are_still_there():
    """An operator of the previous version writes its own main.vcl for pods of this one."""
    now, before = functions((previous.ROOT / VCC).read_text()), functions(previous.text(VCC))
    assert {name: now.get(name) for name in before} == before
