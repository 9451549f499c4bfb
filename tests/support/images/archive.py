"""An image's archive, as `make images` writes it.

In:   build/images/NAME.tar.
Out:  its configuration, and its root file system in a directory.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

BUILT = Path(__file__).parents[3] / "build" / "images"
HIDDEN = ".wh."
"""A name that begins like this takes the rest of it away from the layers below."""


class Archive:
    """A docker-archive with one image in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with tarfile.open(path) as archive:
            (self._manifest,) = json.load(self._member(archive, "manifest.json"))
            self.description: dict[str, Any] = json.load(self._member(archive, self._manifest["Config"]))

    @property
    def names(self) -> list[str]:
        names: list[str] = self._manifest["RepoTags"]
        return names

    @property
    def config(self) -> dict[str, Any]:
        """What a container is started with: User, Env, Entrypoint, Cmd, ExposedPorts, Labels."""
        config: dict[str, Any] = self.description["config"]
        return config

    @property
    def environment(self) -> dict[str, str]:
        return dict(variable.split("=", 1) for variable in self.config["Env"])

    def unpack(self, directory: Path) -> None:
        """Lay the layers over each other."""
        with tarfile.open(self._path) as archive:
            for name in self._manifest["Layers"]:
                with tarfile.open(fileobj=self._member(archive, name)) as layer:
                    _lay(layer, directory)

    @staticmethod
    def _member(archive: tarfile.TarFile, name: str) -> Any:
        found = archive.extractfile(name)
        assert found is not None, name
        return found


def _lay(layer: tarfile.TarFile, directory: Path) -> None:
    for member in layer:
        target = directory / member.name
        if target.name.startswith(HIDDEN):
            hidden = target.with_name(target.name.removeprefix(HIDDEN))
            hidden.rmdir() if hidden.is_dir() and not hidden.is_symlink() else hidden.unlink(missing_ok=True)
        else:
            if not member.isdir():
                target.unlink(missing_ok=True)
            layer.extract(member, directory, numeric_owner=True, filter="fully_trusted")
