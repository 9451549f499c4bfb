"""The kinds that files may hold, with their compiled schemas.

In:   the table of kinds, schemas/*.json, which tools/fetch_schemas.py writes, and the schemas in core.py.
Out:  by apiVersion and kind, a function that validates a document.
A schema is compiled when the first document of its kind is validated.
"""

# ruff: noqa: ANN401  a document's values can be anything

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from varnish_gateway import errors
from varnish_gateway.kinds import KINDS, Kind, SchemaSource
from varnish_gateway.standalone.schema.core import BUILT_IN, METADATA
from varnish_gateway.standalone.schema.problem import FieldProblem
from varnish_gateway.standalone.schema.structure import compile_schema

SCHEMAS = Path(__file__).parent.parent / "schemas"


@dataclass
class KindSchema:
    """Validates the documents of one kind in one version."""

    namespaced: bool
    schema: Mapping[str, Any]

    @cached_property
    def _compiled(self) -> tuple[Callable[[Any, list[FieldProblem]], None], list[str]]:
        unusable: list[str] = []
        return compile_schema(self.schema, unusable), unusable

    @property
    def unusable_rules(self) -> list[str]:
        """CEL rules that the library can't compile; they are not checked."""
        return self._compiled[1]

    def check(self, document: dict[str, Any]) -> list[FieldProblem]:
        """Apply defaults to the document in place; return what is wrong with it."""
        problems: list[FieldProblem] = []
        self._compiled[0](document, problems)
        return problems


class Catalogue:
    """Every kind that Varnish Gateway reads."""

    def __init__(self, schemas: Path = SCHEMAS) -> None:
        self.kinds: dict[tuple[str, str], KindSchema] = {}
        for kind in KINDS.values():
            if kind.schema is not None:
                found = _schemas_of(kind, schemas)
                self.kinds |= {(version, kind.name): KindSchema(kind.namespaced, found[version]) for version in found}

    def find(self, api_version: str, kind: str) -> KindSchema | None:
        """Return the schema of a kind, None if Varnish Gateway does not read the kind.

        Raises UnknownKind for a probable mistake: a known kind with an unknown version, or a name
        that nearly equals a known one of the same group.
        """
        if found := self.kinds.get((api_version, kind)):
            return found
        versions = sorted(version for version, name in self.kinds if name == kind)
        group = api_version.partition("/")[0]
        if versions and (group in {version.partition("/")[0] for version in versions} or not api_version):
            raise errors.UnknownKind(f'apiVersion "{api_version}" of {kind} is not read; use {" or ".join(versions)}')
        ours = {name.lower(): name for version, name in self.kinds if version.partition("/")[0] == group}
        if near := difflib.get_close_matches(kind.lower(), ours, n=1, cutoff=0.85):
            raise errors.UnknownKind(f'unknown kind "{kind}"; did you mean "{ours[near[0]]}"?')
        return None


def _schemas_of(kind: Kind, directory: Path) -> dict[str, Mapping[str, Any]]:
    """Return the schema of each version."""
    if kind.schema is SchemaSource.BUILT_IN:
        return dict.fromkeys(kind.api_versions, BUILT_IN[kind.name])
    versions = _read(directory / f"{kind.name.lower()}.json")["versions"]
    return {version: _with_metadata(versions[version.rpartition("/")[2]]) for version in kind.api_versions}


def _with_metadata(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a CRD's schema with that of metadata, which a CRD leaves to the API server."""
    properties = {**schema["properties"], "metadata": METADATA}
    return {**schema, "properties": properties, "required": [*schema.get("required", ()), "metadata"]}


def _read(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        raise errors.BadSettings(f"the schema {path} is missing; tools/fetch_schemas.py makes it") from None
