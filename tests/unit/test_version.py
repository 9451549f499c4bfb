"""Which version this is, in a checkout and installed."""

from importlib import metadata
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from varnish_gateway import version

CHECKOUT = Path(__file__).parents[2]


def test_checkout_names_its_own_version():
    assert version.find_version() == (CHECKOUT / ".version").read_text().strip()


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Have the module lie where there is no .version above it."""
    monkeypatch.setattr(version, "__file__", str(tmp_path / "a" / "b" / "version.py"))


@pytest.mark.usefixtures("elsewhere")
def test_installation_names_its_installed_version(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: {"varnish-gateway": "1.2.3"}[name])
    assert version.find_version() == "v1.2.3"


@pytest.mark.usefixtures("elsewhere")
def test_missing_version_is_unknown(monkeypatch):
    def not_found(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_found)
    assert version.find_version() == "unknown"
