"""Fixtures of the tests that run our images; `make images-test` runs them in a network of their own.

archive      what `make images` has written, unpacked
containers   the same, running, as in a pod
programs     a command with the image's varnishd in place of this machine's
"""

import pytest

from support.images.archive import BUILT, Archive
from support.images.containers import Image


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
