"""What is claimed, what the docs say, and what the suite has seen are the same."""

import re
from pathlib import Path

import yaml

from varnish_gateway.translate.gateway.gateway_class import CLUSTER_FEATURES

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "conformance.md").read_text()
CORE = {"Gateway", "HTTPRoute", "ReferenceGrant"}
CLAIMED = {feature["name"] for feature in CLUSTER_FEATURES} - CORE


def report():
    (found,) = (ROOT / "conformance" / "reports").glob("*/varnish-gateway/*-report.yaml")
    (profile,) = yaml.safe_load(found.read_text())["profiles"]
    return profile


def test_page_lists_every_claimed_feature():
    section = PAGE.partition("## Extended features")[2].partition("## Not supported")[0]
    assert set(re.findall(r"^\| ([A-Z]\w+) \|", section, re.MULTILINE)) - {"Feature"} == CLAIMED


def test_suite_has_verified_every_claimed_feature():
    assert set(report()["extended"]["supportedFeatures"]) == CLAIMED


def test_page_lists_unsupported_features():
    section = PAGE.partition("## Not supported")[2]
    named = {name for row in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE) for name in row.split(", ")}
    assert named - {"Feature", "---"} == set(report()["extended"]["unsupportedFeatures"])


def test_nothing_failed_and_nothing_was_skipped():
    for kind in ("core", "extended"):
        assert report()[kind]["result"] == "success"
        assert report()[kind]["statistics"].get("Failed", 0) == 0
        assert report()[kind]["statistics"].get("Skipped", 0) == 0


def test_the_page_counts_as_the_suite_did():
    passed = report()["core"]["statistics"]["Passed"]
    assert f"There are {passed} core tests for us" in PAGE
