"""The diagram of ARCHITECTURE.md is what its source draws."""

import tomllib

import diagram


def test_picture_is_current():
    assert diagram.PICTURE.read_text() == diagram.svg(tomllib.loads(diagram.SOURCE.read_text())), "run `make diagram`"


def test_architecture_is_one_page():
    text = (diagram.ROOT / "ARCHITECTURE.md").read_text()
    assert len(text.split()) <= 1500
    assert "docs/architecture.svg" in text
