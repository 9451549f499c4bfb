"""tools/fetch_schemas.py writes the schemas of file mode."""

import importlib.util
import json
from pathlib import Path

import pytest

PATH = Path(__file__).parents[3] / "tools" / "fetch_schemas.py"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("fetch_schemas", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TARGET", tmp_path / "schemas")
    monkeypatch.setattr(module, "STAMP", tmp_path / "schemas" / "made-from")
    return module


CRD = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "text",
                        "properties": {
                            "status": {"type": "object"},
                            "description": {"type": "string", "description": "text"},
                            "list": {"type": "array", "items": {"anyOf": [{"description": "text", "type": "string"}]}},
                        },
                    }
                },
            },
            {"name": "v0", "served": False, "schema": {"openAPIV3Schema": {"type": "object", "properties": {}}}},
        ],
    }
}


def test_compact_removes_descriptions_and_status_but_keeps_properties_of_that_name(tool):
    assert tool.compact(CRD) == {
        "group": "example.com",
        "kind": "Thing",
        "namespaced": True,
        "versions": {
            "v1": {
                "type": "object",
                "properties": {
                    "description": {"type": "string"},
                    "list": {"type": "array", "items": {"anyOf": [{"type": "string"}]}},
                },
            }
        },
    }


def test_unchanged_sources_are_not_downloaded_again(tool, monkeypatch):
    assert tool.main() == 0
    assert json.loads((tool.TARGET / "httproute.json").read_text())["kind"] == "HTTPRoute"
    monkeypatch.setattr(tool, "gateway_api", None)
    assert tool.main() == 0, "it does not download again"


def test_wrong_checksum_fails_and_writes_nothing(tool, monkeypatch, capsys):
    monkeypatch.setattr(tool, "CHECKSUM", "h1:other")
    assert tool.main() == 1
    assert "expected h1:other" in capsys.readouterr().err
    assert not tool.TARGET.exists()
