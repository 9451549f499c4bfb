"""The kinds that files may hold, with their compiled schemas.

In:   schemas/*.json, which tools/fetch_schemas.py makes, and the schemas in core.py.
Out:  for (apiVersion, kind) the check of a document.
A schema is read and compiled when the first document asks for it.
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
from varnish_gateway.standalone.schema.core import CORE_KINDS, METADATA
from varnish_gateway.standalone.schema.problem import Problem
from varnish_gateway.standalone.schema.structure import compile_schema

SCHEMAS = Path(__file__).parent.parent / "schemas"
NAMES = ("gatewayclass", "gateway", "httproute", "listenerset", "referencegrant", "gatewayclassparameters")


@dataclass
class Kind:
    """One version of one kind."""

    namespaced: bool
    schema: Mapping[str, Any]

    @cached_property
    def _compiled(self) -> tuple[Callable[[Any, list[Problem]], None], list[str]]:
        unusable: list[str] = []
        return compile_schema(self.schema, unusable), unusable

    @property
    def unusable_rules(self) -> list[str]:
        """CEL rules that the library can't compile; they are not checked."""
        return self._compiled[1]

    def check(self, document: dict[str, Any]) -> list[Problem]:
        """Apply defaults to the document in place; return what is wrong with it."""
        problems: list[Problem] = []
        self._compiled[0](document, problems)
        return problems


class Catalogue:
    """Every kind that we read."""

    def __init__(self, schemas: Path = SCHEMAS) -> None:
        self.kinds: dict[tuple[str, str], Kind] = {
            name: Kind(namespaced, schema) for name, (schema, namespaced) in CORE_KINDS.items()
        }
        for name in NAMES:
            self._add(_read(schemas / f"{name}.json"))

    def _add(self, crd: Mapping[str, Any]) -> None:
        for version, schema in crd["versions"].items():
            whole = {**schema, "properties": {**schema["properties"], "metadata": METADATA}}
            whole["required"] = [*schema.get("required", ()), "metadata"]
            self.kinds[f"{crd['group']}/{version}", crd["kind"]] = Kind(crd["namespaced"], whole)

    def find(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind, or None when we don't read it.

        Raises UnknownKind for what looks like a slip: a kind that we read under a version that
        we don't, or a name within a group of ours that is nearly one that we read.
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


def _read(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except FileNotFoundError:
        raise errors.BadSettings(f"the schema {path} is missing; tools/fetch_schemas.py makes it") from None
