"""Every rule of HTTPRoute matching and of its filters, against a real varnishd."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.directories import open_directory
from support.http.client import Request, over_http2
from support.varnish.cases import Case, CaseHarness, read_cases

CASE_FILES = Path(__file__).with_name("cases")
CONNECTIONS = CASE_FILES / "connections.yaml"
CASES = [
    pytest.param(case, id=f"{path.stem}-{case.case}")
    for path in sorted(CASE_FILES.glob("*.yaml"))
    for case in read_cases(path)
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness() -> AsyncIterator[CaseHarness]:
    with open_directory() as work_dir:
        harness = CaseHarness(work_dir)
        try:
            await harness.start()
            yield harness
        finally:
            await harness.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES)
async def test_case_yields_its_documented_result(harness: CaseHarness, case: Case) -> None:
    differences = await harness.run(case)
    assert not differences, "\n".join([f"{case.case}: {case.about}", *differences])


@pytest.mark.asyncio(loop_scope="module")
async def test_http2_streams_of_one_connection_are_routed_independently(harness: CaseHarness) -> None:
    """HTTP/2 runs requests of one connection beside each other."""
    hosts = ["a", "b", "none"]
    await harness.put_in_force(
        next(case for case in read_cases(CONNECTIONS) if case.case == "requests-of-one-connection")
    )
    requests = [Request(method="GET", target="/", host=f"{host}.example.com") for host in hosts * 20]
    answers = await over_http2(harness.port(80), requests)
    assert [answer.answered_by for answer in answers] == ["default/a", "default/b", 404] * 20
    assert [answer.values("Y-Set") for answer in answers] == [["a"], [], []] * 20
