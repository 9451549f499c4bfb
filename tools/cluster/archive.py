"""Pack files into a container image of one layer. Pure: the same files make the same bytes.

Out:  an archive as `docker save` writes it, which containerd imports.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pack(names: Sequence[str], programs: Mapping[str, bytes], entrypoint: str, user: str) -> bytes:
    """Return the image of these programs, by their absolute path, under all these names."""
    layer = _layer(programs)
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": [entrypoint], "User": user},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created_by": "tools/cluster/archive.py"}],
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": list(names), "Layers": [f"{digest}/layer.tar"]}]
    return _tar({f"{digest}/layer.tar": layer, config_name: config, "manifest.json": json.dumps(manifest).encode()})


def _layer(programs: Mapping[str, bytes]) -> bytes:
    files = {path.lstrip("/"): content for path, content in programs.items()}
    parents = {str(parent) for path in files for parent in PurePosixPath(path).parents} - {"."}
    return _tar(files, {"tmp": 0o1777, **dict.fromkeys(parents, 0o755)}, mode=0o755)


def _tar(files: Mapping[str, bytes], directories: Mapping[str, int] | None = None, mode: int = 0o644) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for name, rights in sorted((directories or {}).items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, rights
            archive.addfile(entry)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return target.getvalue()
