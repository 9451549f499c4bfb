"""Checks of the Containerfile without building it; tests/images runs the images."""

import fnmatch
import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from varnish_gateway.emit.manifests.deployment import USER

ROOT = Path(__file__).parents[3]
CONTAINERFILE = ROOT / "images" / "Containerfile"
IMAGES = {"operator": ["operator"], "gateway": ["chaperone"]}


class Step(NamedTuple):
    stage: str
    instruction: str
    text: str

    @property
    def script(self) -> str:
        """What a RUN step runs, without the mounts that it asks for."""
        return re.sub(r"--mount=\S+ ", "", self.text)


def steps() -> list[Step]:
    """Return the instructions of the Containerfile, each on one line."""
    lines = [line for line in CONTAINERFILE.read_text().splitlines() if line.strip() and not line.startswith("#")]
    found, stage = [], ""
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, text = line.split(maxsplit=1)
        stage = text.split(" AS ")[1] if instruction == "FROM" else stage
        found.append(Step(stage, instruction, re.sub(r"\s+", " ", text)))
    return found


STEPS = steps()
SCRIPTS = [step for step in STEPS if step.instruction == "RUN"]
PARENTS = {step.stage: step.text.split(" AS ")[0] for step in STEPS if step.instruction == "FROM"}


def effective(stage: str, instruction: str) -> str:
    """Return the last value that a stage, or the stage that it starts from, sets."""
    while not (found := [step.text for step in STEPS if step[:2] == (stage, instruction)]):
        stage = PARENTS[stage]
    return found[-1]


def ignored(name: str) -> bool:
    """Whether .containerignore leaves a top-level file or directory out; its last word counts."""
    verdict = False
    for line in (ROOT / ".containerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(name, line.removeprefix("!")):
            verdict = not line.startswith("!")
    return verdict


@pytest.fixture(params=IMAGES)
def image(request) -> str:
    return request.param


def test_copied_files_exist_and_are_sent_to_the_builder():
    copied = [step.text for step in STEPS if step.instruction == "COPY" and "--from" not in step.text]
    sources = {source for text in copied for source in text.split()[:-1]}
    assert {"ghost", "src", "requirements", "pyproject.toml"} <= sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source.split("/")[0]), f".containerignore leaves out {source}"


@pytest.mark.parametrize("name", [".git", ".venv", "build", "tests", "docs"])
def test_nothing_else_is_sent(name):
    assert ignored(name)


def test_every_crate_is_there_when_dependencies_are_built():
    copied = " ".join(step.text for step in STEPS if step.instruction == "COPY")
    workspace = tomllib.loads((ROOT / "ghost" / "Cargo.toml").read_text())["workspace"]
    for member in workspace["members"]:
        assert f"ghost/{member}/Cargo.toml" in copied


def test_python_code_comes_after_rust():
    assert STEPS.index(Step("build", "COPY", "ghost ./")) < STEPS.index(Step("build", "COPY", "src src"))


def test_files_copied_from_a_stage_are_built_there():
    for text in [step.text for step in STEPS if "--from=" in step.text]:
        stage, source, _ = text.removeprefix("--from=").split()
        assert any(source in step.script for step in SCRIPTS if step.stage == stage), text


def test_every_script_is_one():
    for step in SCRIPTS:
        done = subprocess.run(["sh", "-n", "-c", step.script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{step.script}: {done.stderr}"


def test_steps_mount_only_secrets():
    for step in SCRIPTS:
        assert ("id=apt" in step.text) == ("apt-get" in step.script), step.text
        assert not re.search(r"--mount=type=(?!secret)", step.text), step.text


def test_everything_is_built_on_one_base_that_can_be_chosen():
    assert STEPS[0][1:] == ("ARG", "BASE=docker.io/library/debian:trixie-slim")
    assert set(PARENTS.values()) - set(PARENTS) == {"${BASE}"}


def test_no_registry_of_packages_is_named():
    urls = set(re.findall(r"https?://[^\s\"]+", CONTAINERFILE.read_text()))
    assert urls == {"https://github.com/varnish/gateway"}


def test_it_runs_as_the_user_of_the_manifests(image):
    user = effective(image, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, so that runAsNonRoot can be checked"
    deployment = next(
        document
        for document in yaml.safe_load_all((ROOT / "deploy" / "01-operator.yaml").read_text())
        if document["kind"] == "Deployment"
    )
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}" == f"{USER}:{USER}"


def test_it_starts_our_command(image):
    assert json.loads(effective(image, "ENTRYPOINT")) == ["vgw"]
    assert json.loads(effective(image, "CMD")) == IMAGES[image]


def test_it_has_labels(image):
    labels = effective(image, "LABEL")
    for label in ("title", "description", "source", "licenses", "version"):
        assert f"org.opencontainers.image.{label}=" in labels


def test_the_gateway_has_all_that_it_runs():
    packages = {word for step in SCRIPTS if step.stage in {"run", "gateway"} for word in step.script.split()}
    assert {"varnish", "gcc", "libc6-dev", "haproxy", "python3"} <= packages
    vmod_path = effective("gateway", "ENV").removeprefix("VGW_VMOD=")
    assert any(vmod_path in step.script for step in SCRIPTS if step.stage == "build"), "the chaperone looks elsewhere"
