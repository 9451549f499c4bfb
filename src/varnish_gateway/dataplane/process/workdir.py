"""The directory that varnishd works in.

In:   Settings.
Out:  a Layout of directories that varnishd's users may enter, a fresh secret, and a copy
of the VMOD. varnishd's worker and VCL compiler run as an unprivileged user, so nothing is
handed to them from where the checkout or the configuration happens to lie.
"""

import os
import secrets
import shutil
from pathlib import Path

from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.ir.pod import TOKEN
from varnish_gateway.ir.reserved import TLS_DIRECTORY

VMOD_FILE = "libvmod_ghost.so"
LAST_GOOD_DIRECTORY = "last"
STORE_DIRECTORY = "store"
READABLE_FILE = 0o644
PRIVATE_FILE = 0o600
ENTERABLE_DIRECTORY = 0o755
SHARED_DIRECTORY = 0o1777


class Layout(Struct, frozen=True, kw_only=True):
    work_dir: Path
    secret_path: Path
    secret: bytes
    vmod_dir: Path
    vcl_dir: Path
    varnish_dir: Path
    ghost_config_path: Path
    cdn_id: str  # what ghost adds to CDN-Loop
    tls_cert_dir: Path | None = None
    invalidation_tokens: Path | None = None

    @property
    def temporary_dir(self) -> Path:
        """Where the VCL compiler puts its temporary files."""
        return self.work_dir / "tmp"

    @property
    def store_dir(self) -> Path:
        """Where a cache in a file is, unless an argument names another place."""
        return self.work_dir / STORE_DIRECTORY

    @property
    def private_paths(self) -> tuple[Path, ...]:
        """Directories with private keys, that of the pod's token, and the file of clients' tokens."""
        ours = (self.work_dir / TLS_DIRECTORY, self.work_dir / LAST_GOOD_DIRECTORY, Path(TOKEN.path))
        given = (self.tls_cert_dir, self.invalidation_tokens)
        return (*ours, *(path for path in given if path is not None))


def find_vmod() -> Path | None:
    """Return where ghost's VMOD was built; None leaves it to varnishd's own directory.

    The only place that knows: VGW_VMOD, else build/ of the checkout.
    """
    if path := os.environ.get("VGW_VMOD"):
        if not Path(path).is_file():
            raise errors.BadSettings(f"VGW_VMOD: there is no file {path}; build it or leave the variable out")
        return Path(path)
    built = Path(__file__).resolve().parents[4] / "build" / VMOD_FILE
    return built if built.is_file() else None


def prepare(settings: Settings) -> Layout:
    """Make the directories, the secret and the copy of the VMOD."""
    work_dir = settings.work_dir.absolute()
    layout = Layout(
        work_dir=work_dir,
        secret_path=work_dir / "secret",
        secret=secrets.token_hex(32).encode() + b"\n",
        vmod_dir=work_dir / "vmods",
        vcl_dir=work_dir / "vcl",
        varnish_dir=(settings.varnish_dir or work_dir / "varnishd").absolute(),
        ghost_config_path=_ghost_config_path(settings, work_dir),
        tls_cert_dir=settings.tls_cert_dir and settings.tls_cert_dir.absolute(),
        invalidation_tokens=settings.invalidation_tokens and settings.invalidation_tokens.absolute(),
        cdn_id=settings.cdn_id,
    )
    for directory in (work_dir, layout.vmod_dir, layout.vcl_dir, layout.store_dir, layout.ghost_config_path.parent):
        make_directory(directory)
    layout.varnish_dir.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(layout.temporary_dir, ignore_errors=True)
    layout.temporary_dir.mkdir()
    layout.temporary_dir.chmod(SHARED_DIRECTORY)  # the VCL compiler may have a user of its own
    check_enterable(work_dir, "WORK_DIR")
    check_enterable(layout.ghost_config_path.parent, "GHOST_CONFIG_PATH")
    for stale in layout.vcl_dir.glob("*.vcl"):
        stale.unlink()
    write_private(layout.secret_path, layout.secret)
    if (vmod := find_vmod()) is not None:
        _copy_vmod(vmod, layout.vmod_dir / VMOD_FILE)
    return layout


def _ghost_config_path(settings: Settings, work_dir: Path) -> Path:
    """Return where ghost reads. varnishd may read the whole directory, so there is no other one of ours below."""
    path = (settings.ghost_config_path or work_dir / "ghost.json").absolute()
    return work_dir / "ghost" / path.name if work_dir.is_relative_to(path.parent) else path


def check_enterable(directory: Path, variable: str) -> None:
    """Raise BadSettings if varnishd's unprivileged users can't reach the directory.

    Only root can run varnishd as other users; other users run it as themselves.
    """
    if os.geteuid() != 0:
        return
    for part in (directory, *directory.parents):
        if not part.stat().st_mode & 0o001:
            raise errors.BadSettings(
                f"{variable}: varnishd's users may not enter {part}; chmod o+x it or choose another directory"
            )


def write_readable(path: Path, content: bytes) -> None:
    """Replace path in one step by a file that every user may read."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.chmod(READABLE_FILE)
    partial.replace(path)


def write_private(path: Path, content: bytes) -> None:
    """Replace path in one step by a file that only its owner may read."""
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as file:
        file.write(content)
    partial.replace(path)


def make_directory(directory: Path) -> None:
    """Create missing directories; an existing one keeps its permissions."""
    for part in reversed([directory, *directory.parents]):
        if not part.exists():
            part.mkdir()
            part.chmod(ENTERABLE_DIRECTORY)


def _copy_vmod(source: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    shutil.copyfile(source, partial)
    partial.chmod(READABLE_FILE)
    partial.replace(target)
