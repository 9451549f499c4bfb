"""Run the official conformance suite against our operator, installed in a cluster of its own.

In:   options of the command line; build/images.
Out:  progress on the terminal; build/conformance/TIME with the full log, the report and, on failure,
      evidence; a report of a whole run that passed goes to conformance/reports as the suite wrote it.
"""

import argparse
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from cluster import inside, install, layout, session
from cluster.conformance import evidence, gatewayapi
from cluster.conformance.progress import Progress, expected
from cluster.errors import ClusterError
from cluster.layout import BIN, ROOT

PROFILE = "GATEWAY-HTTP"
TIMEOUT = "45m"
IMPLEMENTATION = {
    "organization": "varnish",
    "project": "varnish-gateway",
    "url": "https://github.com/varnish/gateway",
    "contact": "https://github.com/varnish/gateway/issues/new",
}
WAITS = (
    "GatewayListenersMustHaveConditions",
    "GatewayMustHaveAddress",
    "GatewayMustHaveCondition",
    "GatewayStatusMustHaveListeners",
    "HTTPRouteMustHaveCondition",
    "HTTPRouteMustNotHaveParents",
    "LatestObservedGenerationSet",
    "ListenerSetListenersMustHaveConditions",
    "ListenerSetMustHaveCondition",
    "MaxTimeToConsistency",
    "NamespacesMustBeReady",
    "RouteMustHaveParents",
)
"""Time-outs of the suite that a failing test waits for."""
Say = Callable[[str], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run-test", metavar="NAME", help="only this test; the base resources stay for the next run")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    parser.add_argument("--no-install", action="store_true", help="use what is installed in the running cluster")
    parser.add_argument("--impatient", type=int, metavar="SECONDS", help="for debugging: shorter time-outs")


def conformance(options: argparse.Namespace, say: Say) -> int:
    directory = ROOT / "build" / "conformance" / time.strftime("%Y%m%d-%H%M%S")
    directory.mkdir(parents=True)
    say(f"full log and everything else: {directory}")
    with session.cluster(say, keep=options.keep):
        try:
            if not options.no_install:
                install.everything(say)
            progress, status = _run(options, directory, say)
        except ClusterError:
            evidence.collect(directory / "evidence")
            say(f"evidence: {directory / 'evidence'}")
            raise
        passed = status == 0 and not progress.failed and not progress.missing
        if not passed:
            evidence.collect(directory / "evidence")
            say(f"evidence: {directory / 'evidence'}")
    say(f"{progress.summary()}: {'the suite passed' if passed else 'the suite did NOT pass'}")
    for test in progress.failed:
        say(f"  failed: {test}")
    if passed and _is_whole(options):
        say(f"report: {_publish(directory / 'report.yaml')}")
    return 0 if passed else 1


def _is_whole(options: argparse.Namespace) -> bool:
    return not (options.run_test or options.impatient or options.no_install)


def _run(options: argparse.Namespace, directory: Path, say: Say) -> tuple[Progress, int]:
    claimed = install.supported_features()
    progress = Progress(expected(_needed_features(directory), claimed, options.run_test))
    say(f"{len(progress.expected)} tests for {len(claimed)} features")
    if not progress.expected:
        raise ClusterError(f"the suite has no test called {options.run_test}")
    with (
        (directory / "conformance.log").open("w") as log,
        subprocess.Popen(
            inside.in_client(*command(directory / "report.yaml", options.run_test, options.impatient)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=directory,
            env=inside.environment(),
        ) as running,
    ):
        assert running.stdout is not None
        witnesses: list[threading.Thread] = []
        for line in running.stdout:
            log.write(line)
            before = len(progress.first_signs)
            if news := progress.feed(line):
                log.flush()
                say(news)
            for test in progress.first_signs[before:]:
                witnesses.append(threading.Thread(target=evidence.collect, args=[directory / "evidence" / test]))
                witnesses[-1].start()
        for witness in witnesses:  # they ask the cluster, which may go next
            witness.join()
    return progress, running.returncode


def command(report: Path, run_test: str | None = None, longest: int | None = None) -> list[str]:
    """Return the suite's command line."""
    flags = {
        "gateway-class": install.CLASS,
        "conformance-profiles": PROFILE,
        "usable-address": layout.USABLE_ADDRESS,
        "unusable-address": layout.UNUSABLE_ADDRESS,
        "report-output": str(report),
        "version": (ROOT / ".version").read_text().strip(),
        **IMPLEMENTATION,
    }
    if run_test:
        flags |= {"run-test": run_test, "cleanup-base-resources": "false"}
    if longest:
        flags["timeout-config-overrides"] = ";".join(f"{name}:{longest}" for name in WAITS)
    go = ("-test.run=^TestConformance$", "-test.v=test2json", f"-test.timeout={TIMEOUT}")
    return [str(BIN / "conformance"), *go, *(f"--{name}={value}" for name, value in flags.items())]


def _needed_features(directory: Path) -> dict[str, list[str]]:
    """Ask the suite which features each of its tests needs."""
    target = directory / "tests.json"
    environment = {**inside.environment(), "TEST_LIST": str(target)}
    subprocess.run([BIN / "conformance", "-test.run=^TestList$"], env=environment, check=True, capture_output=True)
    return dict(json.loads(target.read_text()))


def _publish(report: Path) -> Path:
    """Put the report where the Gateway API's own collection would have it."""
    version = (ROOT / ".version").read_text().strip()
    directory = ROOT / "conformance" / "reports" / gatewayapi.version() / IMPLEMENTATION["project"]
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{gatewayapi.CHANNEL}-{version}-default-report.yaml"
    if not target.exists() or _undated(target) != _undated(report):  # the same again is no news
        shutil.copyfile(report, target)
    return target.relative_to(ROOT)


def _undated(report: Path) -> list[str]:
    return [line for line in report.read_text().splitlines() if not line.startswith("date:")]
