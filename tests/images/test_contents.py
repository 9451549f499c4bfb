"""What is in the images, and what is not."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.images.archive import BUILT
from support.images.containers import Container, Image

ROOT = BUILT.parents[1]
LARGEST = {"operator": 190, "gateway": 330}
"""Megabytes, unpacked; a step that leaves its caches behind goes over it."""


@pytest.fixture(params=LARGEST)
def image(request) -> Image:
    return request.getfixturevalue(request.param)


def output_of(image: Image, workdir: Path, *arguments: str) -> str:
    with Container(image, workdir, arguments) as container:
        assert container.wait() == 0, container.output
        return container.output


def files(root: Path) -> list[Path]:
    return [Path(directory) / name for directory, _, names in os.walk(root) for name in names]


def test_image_name_matches_the_chart(image):
    rendered = (ROOT / "deploy" / "01-operator.yaml").read_text()
    (name,) = image.archive.names
    assert name in rendered


def test_image_label_and_program_state_the_version(image, workdir):
    version = (ROOT / ".version").read_text().strip()
    assert image.archive.config["Labels"]["org.opencontainers.image.version"] == version
    assert version.removeprefix("v") in output_of(image, workdir, "vgw", "--version")


@pytest.mark.parametrize("name", LARGEST)
def test_image_size_stays_within_its_bound(name):
    assert (BUILT / f"{name}.tar").stat().st_size < LARGEST[name] * 1_000_000


def test_image_holds_no_documentation_caches_or_sources(image):
    left = [
        path
        for pattern in (
            "usr/share/doc/*/*",
            "usr/share/man/*/*",
            "var/cache/**/*",
            "var/lib/apt/lists/*",
            "etc/apt/sources*",
        )
        for path in image.root.glob(pattern)
        if path.is_file() and path.stat().st_size
    ]
    assert left == []


def test_image_contains_nothing_of_the_build_machine(image):
    """Neither its name nor the certificates that it trusts besides, nor where its packages come from."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    words = set(re.findall(r"https?://([^/'\s]+)", listed.stdout))
    for certificate in Path("/usr/local/share/ca-certificates").glob("**/*.crt"):
        words.add(certificate.read_text().split()[-4])  # a line of its signature
    texts = [path for top in ("etc", "opt", "root", "var") for path in files(image.root / top) if path.is_file()]
    assert [path for path in texts if any(word.encode() in path.read_bytes() for word in words)] == []
    assert not any(word in json.dumps(image.archive.description) for word in words)
    for name in ("hostname", "resolv.conf", "hosts"):
        path = image.root / "etc" / name
        assert not path.exists() or not path.read_text(), path


def test_image_files_are_world_readable_and_not_writable(image):
    for path in files(image.root / "opt"):
        mode = path.lstat()
        assert mode.st_uid == 0, path
        assert path.is_symlink() or mode.st_mode & 0o044 == 0o044, path
        assert path.is_symlink() or not mode.st_mode & 0o022, path


def test_python_code_is_compiled(image):
    """The root is read-only: what isn't compiled in the image is compiled at every start."""
    package = next(image.root.glob("opt/varnish-gateway/lib/python3*/site-packages/varnish_gateway"))
    assert (package / "__pycache__").is_dir()
    assert (package / "_ghost.abi3.so").is_file()


def test_libraries_are_stripped(gateway):
    for library in (*gateway.root.glob("opt/**/_ghost*.so"), *gateway.root.glob("opt/**/libvmod_ghost.so")):
        listed = subprocess.run(
            ["readelf", "--sections", "--wide", library], capture_output=True, text=True, check=True
        )
        assert ".debug_info" not in listed.stdout, library


def test_the_gateway_has_the_versions_that_the_docs_name(gateway, workdir):
    assert "varnish-7.7" in output_of(gateway, workdir, "varnishd", "-V")
    assert "version 3.0" in output_of(gateway, workdir, "haproxy", "-v")
