"""Fixtures of the tests that run our images; `make images-test` runs them in a network of their own.

archive      what `make images` has written, unpacked
containers   the same, running, as in a pod
programs     a command with the image's varnishd in place of this machine's
"""

from pathlib import Path

import pytest

from support.images.archive import Archive
from support.images.containers import Image
from varnish.conftest import coffee, place, tea

__all__ = ["coffee", "place", "tea"]

BUILT = Path(__file__).parents[2] / "build" / "images"


@pytest.fixture(scope="session")
def operator(tmp_path_factory) -> Image:
    return _image("operator", tmp_path_factory)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory) -> Image:
    return _image("gateway", tmp_path_factory)


def _image(name: str, places: pytest.TempPathFactory) -> Image:
    archive = Archive(BUILT / f"{name}.tar")
    root = places.mktemp(name)
    root.chmod(0o755)
    archive.unpack(root)
    return Image(archive, root)
