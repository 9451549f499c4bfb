"""What is made of the conformance suite's output."""

from cluster.conformance.progress import Progress, expected

LINES = """\
\x16=== RUN   TestConformance
    suite.go:500: 2026-01-01T00:00:00Z: Test Setup: Applying base manifests
\x16=== RUN   TestConformance/HTTPRouteSimpleSameNamespace
\x16=== RUN   TestConformance/HTTPRouteSimpleSameNamespace/Simple_HTTP_request
\x16        --- PASS: TestConformance/HTTPRouteSimpleSameNamespace/Simple_HTTP_request (0.02s)
\x16    --- PASS: TestConformance/HTTPRouteSimpleSameNamespace (1.05s)
\x16    --- SKIP: TestConformance/MeshBasic (0.00s)
\x16        --- FAIL: TestConformance/HTTPRouteWeight/part (30.00s)
\x16    --- FAIL: TestConformance/HTTPRouteWeight (31.00s)
\x16--- FAIL: TestConformance (40.00s)
""".splitlines()


def test_each_test_of_the_suite_is_one_line():
    progress = Progress(["HTTPRouteSimpleSameNamespace", "HTTPRouteWeight", "HTTPRouteMethodMatching"])
    reported = [news for line in LINES if (news := progress.feed(line))]
    assert reported == [
        "set-up: Applying base manifests",
        "1 of 3: HTTPRouteSimpleSameNamespace passed (1.05 s)",
        "    FAILED HTTPRouteWeight/part",
        "2 of 3: HTTPRouteWeight FAILED (31.00 s)",
    ]
    assert progress.failed == ["HTTPRouteWeight"]
    assert progress.summary() == "1 passed, 1 failed, 1 did not run"


def test_a_test_has_failed_as_soon_as_a_part_of_it_has():
    progress = Progress(["HTTPRouteWeight"])
    progress.feed(LINES[7])
    assert progress.first_signs == ["HTTPRouteWeight"]
    assert not progress.failed


def test_an_expected_test_that_is_skipped_has_not_passed():
    progress = Progress(["MeshBasic"])
    assert progress.feed(LINES[6]) == "skipped MeshBasic"
    assert progress.missing == ["MeshBasic"]


def test_tests_whose_features_are_not_all_claimed_are_not_expected():
    needed = {"One": ["Gateway"], "Two": ["Gateway", "Mesh"], "Three": []}
    assert expected(needed, ["Gateway", "HTTPRoute"]) == ["One", "Three"]
    assert expected(needed, ["Gateway"], only="Two") == ["Two"]
    assert expected(needed, ["Gateway"], only="Four") == []
