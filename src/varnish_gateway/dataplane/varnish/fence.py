"""What varnishd may read and change: everything that it needs, and no private key.

In:   a Layout, directories to include VCL from, Unix sockets to open, varnishd's arguments.
Out:  a Fence for varnishd, its worker and the VCL compiler. User VCL runs in all three: std.fileread reads files
in the worker, ``include`` and error messages read them in the compiler.

Landlock can't except a directory from one that is open. So an open directory that contains a private one
is opened entry by entry.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from varnish_gateway.dataplane.process.landlock import Fence
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.ir import pod

# Programs, libraries, the compiler, name resolution. Not /proc of any process: environments and the names of
# HAProxy's sockets are there.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/srv")
_KERNEL = ("/proc/sys", "/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/sys/devices/system", "/sys/kernel/mm")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
MOUNTS = Path("/proc/self/mountinfo")
# Tokens of the pod, ours and those that webhooks of cloud providers add.
_TOKENS = ("/run/secrets", "/var/run/secrets")
_LINKED = ("/etc/resolv.conf", "/etc/localtime")  # may lead out of /etc
_PATH = re.compile(r"(?:^|^-[a-zA-Z]|[=,:])(/[^,:=]+)")
_FILE_STORE = re.compile(r"(?:^|^-s|=)(?:file|persistent|deprecated_persistent),(/[^,]+)")


def fence_of(layout: Layout, vcl_dirs: Iterable[Path], sockets: Iterable[Path], argv: Sequence[str]) -> Fence:
    """Return the fence of a varnishd with these arguments."""
    open_paths = [
        *map(Path, (*_SYSTEM, *_KERNEL)),
        *(Path(link).resolve().parent for link in _LINKED),
        *(Path(program).resolve().parent for program in (shutil.which("varnishd"),) if program),
        *_named_paths(),
        *(layout.vmod_dir, layout.vcl_dir, layout.ghost_config_path.parent, *vcl_dirs),
        *(Path(path) for word in argv for path in _PATH.findall(word)),
    ]
    readable = [path for directory in open_paths for path in _opened(directory, layout.private_paths)]
    stores = (_directory(Path(path)) for word in argv for path in _FILE_STORE.findall(word))
    writable = (layout.varnish_dir, layout.temporary_dir, *map(Path, _DEVICES), *stores)
    return Fence(_texts(readable), _texts(writable), _texts(socket.parent for socket in sockets))


def _named_paths() -> list[Path]:
    """Return what the user lets varnishd read besides.

    Operators of earlier versions mount volumes of the user and don't name them: then all mounts but ours count.
    """
    named = os.environ.get("VARNISHD_READABLE")
    if named is None and os.environ.get("CONFIGMAP_NAME"):
        return _mounts_of_users(MOUNTS.read_text())
    return [Path(path) for path in (named or "").split(":") if path.startswith("/")]


def _mounts_of_users(mounts: str) -> list[Path]:
    """Return the mount points of a pod that are neither the container's own nor ours."""
    points = [Path(line.split()[4].encode().decode("unicode_escape")) for line in mounts.splitlines()]
    ours = [Path(mount.path) for mount in pod.MOUNTS]
    ours += [one.resolve() for one in ours]  # /var/run is a link
    closed = [*map(Path, ("/proc", "/sys", "/dev", *_TOKENS)), *ours]
    return [
        point for point in points if not any(one.is_relative_to(point) or point.is_relative_to(one) for one in closed)
    ]


def _texts(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(str, paths)))


def _directory(store: Path) -> Path:
    """Return the directory of a store: varnishd may have to create the file."""
    return store if store.is_dir() else store.parent


def _opened(path: Path, private: Sequence[Path]) -> Iterator[Path]:
    """Yield the path, or its entries where a private directory lies below; never a private directory."""
    path = path.resolve()
    hidden = [each.resolve() for each in private]
    if any(path.is_relative_to(each) for each in hidden):
        return
    if not any(each.is_relative_to(path) for each in hidden):
        yield path
    elif path.is_dir():
        for entry in path.iterdir():
            yield from _opened(entry, private)
