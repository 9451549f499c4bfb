"""The builder: buildah with its own store, which holds every layer.

In:   a base, a Containerfile, secrets.
Out:  images in the store, and archives of them for `ctr images import` and `podman load`.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile

from imaging.debian import Base

RUN_ROOT = "/run/varnish-gateway-images"
"""State of mounts, which a reboot must clear."""


class Buildah:
    """Runs buildah on one store; its output goes to a log, its steps also to the terminal."""

    def __init__(self, store: Path, log: Path) -> None:
        self._command = ["buildah", "--root", str(store), "--runroot", RUN_ROOT]
        self._log = log

    def base(self, base: Base) -> str:
        """Return the name of the image that contains a base as its only layer; create it if it is missing."""
        name = f"localhost/varnish-gateway-base:{base.identity}"
        if subprocess.run(
            [*self._command, "inspect", "--type=image", name], capture_output=True, check=False
        ).returncode:
            container = self._output("from", "scratch")
            try:
                self._run("add", "--quiet", container, str(base.archive), "/")
                self._run("commit", "--quiet", container, name)
            finally:
                self._run("rm", container)
        return name

    def build(
        self, context: Path, stage: str, name: str, *, arguments: Mapping[str, str], secrets: Mapping[str, Path]
    ) -> None:
        """Build one stage of images/Containerfile; buildah reuses the layers of unchanged steps."""
        command = ["build", "--layers", "--pull=never", "--isolation=oci", "--network=host", "--format=docker"]
        command += ["--file", str(context / "images" / "Containerfile"), "--target", stage, "--tag", name]
        command += [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        command += [word for name, path in secrets.items() for word in ("--secret", f"id={name},src={path}")]
        self._run(*command, str(context))

    def save(self, image: str, archive: Path) -> None:
        self._run("push", "--quiet", image, f"docker-archive:{archive}:{image}")

    def copy_out(self, image: str, path: str, target: Path) -> None:
        """Copy one file of an image."""
        container = self._output("from", "--pull=never", image)
        try:
            copyfile(self._output("mount", container) + path, target)
        finally:
            self._run("rm", container)

    def _output(self, *words: str) -> str:
        done = subprocess.run([*self._command, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"buildah {words[0]} failed: {done.stderr}")
        return done.stdout.strip()

    def _run(self, *words: str) -> None:
        command = [*self._command, *words]
        with (
            self._log.open("a") as log,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
            ) as running,
        ):
            assert running.stdout is not None
            print(f"$ {' '.join(command)}", file=log, flush=True)
            for line in running.stdout:
                log.write(line)
                log.flush()
                if " STEP " in line[:20]:
                    print(f"  {line.rstrip()[:110]}", flush=True)
        if running.returncode:
            output = self._log.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"buildah {words[0]} failed:\n{output}\nthe full log is {self._log}")
