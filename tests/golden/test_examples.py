"""Each example comes to exactly what is written down for it, as ``vgw translate`` prints it."""

from pathlib import Path

import pytest

from varnish_gateway.cli.main import main

EXAMPLES = sorted(path.parent for path in (Path(__file__).parents[2] / "examples").glob("*/README.md"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_translates_to_golden(example, update_golden, capsys):
    status = main(["translate", str(example)])
    printed = capsys.readouterr().out
    golden = Path(__file__).parent / f"example-{example.name}" / "out.yaml"
    if update_golden:
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(printed)
    assert status == 0
    assert printed == golden.read_text()
