"""What can be said about the Containerfiles without building them."""

import fnmatch
import json
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from varnish_gateway.emit.manifests.deployment import USER

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "images"
FILES = sorted(IMAGES.glob("Containerfile.*"))


class Step(NamedTuple):
    stage: int
    instruction: str
    text: str


def steps(path: Path) -> list[Step]:
    """Return the instructions of a Containerfile, each on one line."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    found, stage = [], 0
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, text = line.split(maxsplit=1)
        stage += instruction == "FROM"
        found.append(Step(stage, instruction, re.sub(r"\s+", " ", text)))
    return found


def last(path: Path, instruction: str) -> str:
    everything = steps(path)
    (text,) = [step.text for step in everything if step[:2] == (everything[-1].stage, instruction)]
    return text


def ignored(name: str) -> bool:
    """Whether .containerignore leaves a top-level file or directory out; its last word counts."""
    verdict = False
    for line in (ROOT / ".containerignore").read_text().splitlines():
        if line and not line.startswith("#") and fnmatch.fnmatch(name, line.removeprefix("!")):
            verdict = not line.startswith("!")
    return verdict


@pytest.fixture(params=FILES, ids=lambda path: path.suffix[1:])
def containerfile(request) -> Path:
    return request.param


def test_both_images_are_here():
    assert [path.suffix for path in FILES] == [".gateway", ".operator"]


def test_what_is_copied_exists_and_is_sent_to_the_builder(containerfile):
    copied = [step.text for step in steps(containerfile) if step.instruction == "COPY" and "--from" not in step.text]
    sources = {source for text in copied for source in text.split()[:-1]}
    assert {"ghost", "src", "requirements", "pyproject.toml"} <= sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), f".containerignore leaves out {source}"


@pytest.mark.parametrize("name", [".git", ".venv", "build", "tests", "docs"])
def test_nothing_else_is_sent(name):
    assert ignored(name)


def test_what_a_stage_takes_from_another_was_made_there(containerfile):
    everything = steps(containerfile)
    stages = {step.text.split(" AS ")[1]: step.stage for step in everything if " AS " in step.text}
    for text in [step.text for step in everything if "--from=" in step.text]:
        name, source, _ = text.removeprefix("--from=").split()
        made = [step.text for step in everything if step.stage == stages[name] and step.instruction == "RUN"]
        assert any(source in script for script in made), text


def test_every_script_is_one(containerfile):
    scripts = [step.text for step in steps(containerfile) if step.instruction == "RUN"]
    assert scripts
    for script in scripts:
        done = subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}: {done.stderr}"


def test_everything_is_built_on_one_base_that_can_be_chosen(containerfile):
    everything = steps(containerfile)
    assert everything[0][1:] == ("ARG", "BASE=docker.io/library/debian:trixie-slim")
    assert {step.text.split(" AS ")[0] for step in everything if step.instruction == "FROM"} == {"${BASE}"}


def test_no_registry_of_packages_is_named(containerfile):
    urls = set(re.findall(r"https?://[^\s\"]+", containerfile.read_text()))
    assert urls == {"https://github.com/varnish/gateway"}


def test_it_runs_as_the_user_of_the_manifests(containerfile):
    user = last(containerfile, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, so that runAsNonRoot can be checked"
    deployment = next(
        document
        for document in yaml.safe_load_all((ROOT / "deploy" / "01-operator.yaml").read_text())
        if document["kind"] == "Deployment"
    )
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}" == f"{USER}:{USER}"


def test_it_starts_our_command(containerfile):
    assert json.loads(last(containerfile, "ENTRYPOINT")) == ["vgw"]
    command = {"operator": ["operator"], "gateway": ["chaperone"]}[containerfile.suffix[1:]]
    assert json.loads(last(containerfile, "CMD")) == command


def test_it_has_labels(containerfile):
    labels = last(containerfile, "LABEL")
    for label in ("title", "description", "source", "licenses", "version"):
        assert f"org.opencontainers.image.{label}=" in labels


def test_the_gateway_has_all_that_it_runs():
    packages = last(IMAGES / "Containerfile.gateway", "RUN").split()
    assert {"varnish", "gcc", "libc6-dev", "haproxy", "python3"} <= set(packages)
    made = [step.text for step in steps(IMAGES / "Containerfile.gateway") if step.instruction == "RUN"]
    told = re.search(r"VGW_VMOD=(\S+)", (IMAGES / "Containerfile.gateway").read_text())[1]
    assert any(script.endswith(told) for script in made), "ghost is where the chaperone is told to look"
