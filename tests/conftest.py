"""Options and fixtures of the whole suite."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from support.directories import open_directory
from support.http.origins import Origin

# How long an example takes says more about the machine than about the code.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what comes out into the golden files instead of comparing"
    )
    parser.addoption("--soak", action="store_true", help="also make the long runs")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: a long run, made by `make soak`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long runs to `make soak`: `make test` has a short version of each."""
    if not config.getoption("--soak"):
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def workdir() -> Iterator[Path]:
    """Give a directory that varnishd's unprivileged worker may enter."""
    with open_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def tea() -> Iterator[Origin]:
    with Origin("tea") as origin:
        yield origin


@pytest.fixture(scope="module")
def coffee() -> Iterator[Origin]:
    with Origin("coffee") as origin:
        yield origin
