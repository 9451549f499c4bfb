"""Containers of our images, as a gateway pod runs them: by runc, as an unprivileged user, on a read-only root.

In:   an unpacked image, its configuration, volumes.
Out:  a running container in the network namespace of the test, and its output.
"""

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from support.images.archive import Archive
from varnish_gateway.emit.manifests.deployment import USER

KERNEL = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "noexec"]},
]


HOSTS = "127.0.0.1 localhost\n::1 localhost\n"
"""What every runtime lays over /etc/hosts."""


class Image:
    """An archive and its root file system."""

    def __init__(self, archive: Archive, root: Path) -> None:
        self.archive, self.root = archive, root

    @property
    def entrypoint(self) -> list[str]:
        return [*self.archive.config["Entrypoint"], *self.archive.config["Cmd"]]


class Container:
    """One container. ``volumes`` are directories of the test, by where they are mounted."""

    def __init__(
        self,
        image: Image,
        workdir: Path,
        arguments: Sequence[str] = (),
        *,
        environment: Mapping[str, str] | None = None,
        volumes: Mapping[str, Path] | None = None,
        read_only: Sequence[str] = (),
    ) -> None:
        self.name = f"vgw-images-{uuid.uuid4().hex[:8]}"
        self._bundle = workdir / self.name
        self._bundle.mkdir()
        self._output = self._bundle / "output"
        mounts = [
            _bind(target, source, "ro" if target in read_only else "rw") for target, source in (volumes or {}).items()
        ]
        hosts = self._bundle / "hosts"
        hosts.write_text(HOSTS)
        mounts.append(_bind("/etc/hosts", hosts, "ro"))
        variables = image.archive.environment | dict(environment or {})
        specification = _specification(image.root, list(arguments or image.entrypoint), variables, mounts)
        (self._bundle / "config.json").write_text(json.dumps(specification))

    def __enter__(self) -> Self:
        with self._output.open("wb") as output:
            self._runc = subprocess.Popen(
                ["runc", "run", "--bundle", str(self._bundle), self.name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["runc", "delete", "--force", self.name], capture_output=True, check=False)
        self._runc.wait()

    @property
    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def wait(self, seconds: float = 30) -> int:
        """Return the exit status of a container that ends by itself."""
        return self._runc.wait(seconds)

    def stop(self) -> int:
        """Ask it to end, as the kubelet does."""
        os.kill(self._first_process, signal.SIGTERM)
        return self.wait()

    @property
    def _first_process(self) -> int:
        state = subprocess.run(["runc", "state", self.name], capture_output=True, text=True, check=True)
        return int(json.loads(state.stdout)["pid"])


def _bind(target: str, source: Path, access: str) -> dict[str, Any]:
    return {
        "destination": target,
        "type": "bind",
        "source": str(source),
        "options": ["bind", access, "nosuid", "nodev"],
    }


def _specification(
    root: Path, arguments: list[str], environment: Mapping[str, str], mounts: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the configuration for runc: the security context of the manifests."""
    return {
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": USER, "gid": USER},
            "args": arguments,
            "env": [f"{name}={value}" for name, value in environment.items()],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {},
        },
        "root": {"path": str(root), "readonly": True},
        "mounts": [*KERNEL, *mounts],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts")]},
    }
