"""Images of the cluster: those that we pack, and those that `make images` and `make build/previous` built."""

from pathlib import Path

from cluster import archive, inside, layout
from cluster.conformance import gatewayapi
from cluster.errors import ClusterError

OURS = tuple(layout.ROOT / "build" / "images" / f"{name}.tar" for name in ("operator", "gateway"))
PREVIOUS = tuple(layout.PREVIOUS / "build" / "images" / path.name for path in OURS)
UNPRIVILEGED = "65532:65532"


def import_base() -> None:
    """Pack and import what every cluster needs: pause, the echo server and DNS of the conformance tests."""
    _pack("pause", [layout.PAUSE_IMAGE])
    _pack("echo-basic", [layout.ECHO_IMAGE, *gatewayapi.images("echo-basic")])
    _pack("coredns", gatewayapi.images("coredns"), user="0:0")  # binds port 53


def import_ours() -> bool:
    """Import the operator's and the gateway's image; return whether one of them is another than before."""
    before = inside.ctr("images", "list")
    for path in OURS:
        if not path.exists():
            raise ClusterError(f"{path} is missing: make images")
        import_archive(path)
    return inside.ctr("images", "list") != before


def import_previous() -> None:
    """Import the images of the previous version, which have a tag of their own."""
    for path in PREVIOUS:
        if not path.exists():
            raise ClusterError(f"{path} is missing: make build/previous")
        import_archive(path)


def import_archive(path: Path) -> None:
    inside.ctr("images", "import", str(path))


def _pack(program: str, names: list[str], user: str = UNPRIVILEGED) -> None:
    place = f"/{program}"
    content = (layout.BIN / program).read_bytes()
    target = layout.IMAGES / f"{program}.tar"
    target.write_bytes(archive.pack(names, {place: content}, place, user))
    import_archive(target)
