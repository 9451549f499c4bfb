"""Manifests in a directory, and a watcher of it."""

import pytest

from support.watching import TIMEOUT
from varnish_gateway.standalone.files.watcher import Watcher


@pytest.fixture
def conf(tmp_path):
    directory = tmp_path / "conf"
    directory.mkdir()
    (directory / "a.yaml").write_text("a: 1\n")
    (directory / "b.yaml").write_text("b: 1\n")
    return directory


@pytest.fixture
def watcher(conf):
    with Watcher([str(conf)]) as watching:
        yield watching


@pytest.fixture
def _long_absence(monkeypatch):
    """Report no delayed file within a test, however slow the machine is."""
    monkeypatch.setattr("varnish_gateway.standalone.files.watcher.ABSENCE_SECONDS", 10 * TIMEOUT)
