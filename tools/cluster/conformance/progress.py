"""Make progress lines out of what the conformance suite prints. Pure.

In:   lines of a Go test program under ``-test.v=test2json``, and which tests are expected to run.
Out:  one line for each test of the suite that ended, and what failed.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_RESULT = re.compile(
    r"^\s*\x16?\s*--- (PASS|FAIL|SKIP): TestConformance/(?P<test>[^/\s]+)(?P<part>/\S+)? \((?P<took>[\d.]+)s\)"
)
_STEP = re.compile(r"Test Setup: (.*)")
_WORDS = {"PASS": "passed", "FAIL": "FAILED"}


@dataclass
class Progress:
    expected: Collection[str]
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    first_signs: list[str] = field(default_factory=list)
    """Tests of which a part has failed, in that order."""

    def feed(self, line: str) -> str | None:
        """Process a line of the suite; return what to print, if there is something."""
        if step := _STEP.search(line):
            return f"set-up: {step[1]}"
        found = _RESULT.match(line)
        if found is None:
            return None
        result, test, part = found[1], found["test"], found["part"]
        if result == "FAIL" and test not in self.first_signs:
            self.first_signs.append(test)
        if part:
            return f"    FAILED {test}{part}" if result == "FAIL" else None
        if result == "SKIP":
            return f"skipped {test}" if test in self.expected else None
        (self.passed if result == "PASS" else self.failed).append(test)
        count = len(self.passed) + len(self.failed)
        return f"{count} of {len(self.expected)}: {test} {_WORDS[result]} ({found['took']} s)"

    @property
    def missing(self) -> list[str]:
        """Tests that should have run and gave no result."""
        return sorted(set(self.expected) - set(self.passed) - set(self.failed))

    def summary(self) -> str:
        text = f"{len(self.passed)} passed, {len(self.failed)} failed"
        return f"{text}, {len(self.missing)} did not run" if self.missing else text


def expected(needed: dict[str, list[str]], claimed: Collection[str], only: str | None = None) -> list[str]:
    """Return the tests that run with these features; one that is asked for runs with any."""
    if only:
        return [test for test in needed if test == only]
    return [test for test, features in needed.items() if set(features) <= set(claimed)]
