"""Every rule of HTTPRoute matching and of its filters, against a real varnishd."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio
from caselab import Case, Lab, load, taker
from talk import Request, over_http2

CASE_FILES = Path(__file__).with_name("cases")
CONNECTIONS = CASE_FILES / "connections.yaml"
CASES = [
    pytest.param(case, id=f"{path.stem}-{case.case}")
    for path in sorted(CASE_FILES.glob("*.yaml"))
    for case in load(path)
]


@pytest.fixture(scope="module")
def work_dir() -> Iterator[Path]:
    with TemporaryDirectory(prefix="vgw-cases-") as name:
        Path(name).chmod(0o755)  # varnishd's users have to get there
        yield Path(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(work_dir: Path) -> AsyncIterator[Lab]:
    lab = Lab(work_dir)
    try:
        await lab.start()
        yield lab
    finally:
        await lab.close()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("case", CASES)
async def test_case_holds(lab: Lab, case: Case) -> None:
    differences = await lab.run(case)
    assert not differences, "\n".join([f"{case.case}: {case.about}", *differences])


@pytest.mark.asyncio(loop_scope="module")
async def test_streams_of_one_connection_are_routed_each_by_itself(lab: Lab) -> None:
    """HTTP/2 runs requests of one connection beside each other."""
    hosts = ["a", "b", "none"]
    await lab.put_in_force(next(case for case in load(CONNECTIONS) if case.case == "requests-of-one-connection"))
    requests = [Request(method="GET", target="/", host=f"{host}.example.com") for host in hosts * 20]
    answers = await over_http2(lab.port(80), requests)
    assert [taker(answer) for answer in answers] == ["default/a", "default/b", 404] * 20
    assert [answer.values("Y-Set") for answer in answers] == [["a"], [], []] * 20
