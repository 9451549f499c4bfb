"""The checked-in JSON Schemas are what the wire format says."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_spec = importlib.util.spec_from_file_location("write_schemas", ROOT / "tools" / "write_schemas.py")
write_schemas = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(write_schemas)


@pytest.mark.parametrize(("name", "text"), write_schemas.schemas().items())
def test_schema_is_current(name, text):
    assert (ROOT / "docs" / "reference" / "schema" / name).read_text() == text, "run tools/write_schemas.py"
