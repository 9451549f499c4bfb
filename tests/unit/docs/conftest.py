"""Tests of tools/docs import its modules by name, as the tools do themselves."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tools" / "docs"))
