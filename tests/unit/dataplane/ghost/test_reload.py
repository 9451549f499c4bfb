"""The installer against a reload socket made of a few lines."""

import asyncio

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.ghost.files import GhostFiles
from varnish_gateway.dataplane.ghost.reload import GhostInstaller
from varnish_gateway.dataplane.quarantine import COSTLY, ROUTINE, Quarantine

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = b"HTTP/1.1 500 No\r\nX-Ghost-Error: no such field\r\nContent-Length: 0\r\n\r\n"


class Ghost:
    """Answers every request with ``answer`` and counts."""

    def __init__(self):
        self.answer, self.requests = OK, []

    async def serve(self, reader, writer):
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        writer.write(self.answer)
        writer.close()


@pytest.fixture
async def ghost():
    ghost = Ghost()
    server = await asyncio.start_server(ghost.serve, "127.0.0.1", 0)
    ghost.port = server.sockets[0].getsockname()[1]
    yield ghost
    server.close()


def make(directory):
    rejected, deadly = Quarantine(lambda: None, ROUTINE), Quarantine(lambda: None, COSTLY)
    return GhostInstaller(directory / "ghost.json", rejected, deadly)


@pytest.fixture
def installer(tmp_path):
    return make(tmp_path)


def bundle(content):
    files = GhostFiles()
    files.update({0: content}, {})
    return files.bundle()


def names(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir())


async def test_unchanged_bundle_is_installed_once(ghost, installer, tmp_path):
    assert await installer.install(bundle(b"a"), ghost.port)
    assert not await installer.install(bundle(b"a"), ghost.port)
    assert ghost.requests == [b"GET /.varnish-ghost/reload HTTP/1.1"]
    assert names(tmp_path) == sorted(["ghost.json", *bundle(b"a").files])


async def test_old_files_go_after_success(ghost, installer, tmp_path):
    await installer.install(bundle(b"a"), ghost.port)
    await installer.install(bundle(b"b"), ghost.port)
    assert names(tmp_path) == sorted(["ghost.json", *bundle(b"b").files])


async def test_rejection_restores_the_last_good_bundle_and_quarantines(ghost, installer, tmp_path):
    await installer.install(bundle(b"a"), ghost.port)
    ghost.answer = REFUSED
    for _ in range(2):
        with pytest.raises(errors.ReloadRejected, match="no such field"):
            await installer.install(bundle(b"b"), ghost.port)
    assert len(ghost.requests) == 2
    assert (tmp_path / "ghost.json").read_bytes() == bundle(b"a").manifest
    assert names(tmp_path) == sorted(["ghost.json", *bundle(b"a").files])
    ghost.answer = OK
    assert await installer.install(bundle(b"c"), ghost.port)
    assert await installer.install(bundle(b"b"), ghost.port)


async def test_fault_restores_the_last_good_bundle_and_allows_a_retry(ghost, installer, tmp_path):
    await installer.install(bundle(b"a"), ghost.port)
    ghost.answer = b""
    with pytest.raises(ConnectionError, match="without an answer"):
        await installer.install(bundle(b"b"), ghost.port)
    assert (tmp_path / "ghost.json").read_bytes() == bundle(b"a").manifest
    ghost.answer = OK
    assert await installer.install(bundle(b"b"), ghost.port)


@pytest.mark.parametrize(
    ("answer", "message"),
    [(b"404 Not Found\r\n\r\n", "answered 404"), (b'200 OK\r\n\r\n"\xe9"', "something that is not ghost's")],
)
async def test_answer_that_is_not_from_ghost_is_a_rejection(ghost, installer, answer, message):
    ghost.answer = b"HTTP/1.1 " + answer
    with pytest.raises(errors.ReloadRejected, match=message):
        await installer.install(bundle(b"a"), ghost.port)


def test_files_of_an_earlier_process_are_swept(tmp_path):
    (tmp_path / "routing-0-0123456789abcdef.json").touch()
    (tmp_path / "mine.json").touch()
    make(tmp_path)
    assert names(tmp_path) == ["mine.json"]


async def test_lost_answer_makes_ghost_read_the_last_good_bundle_again(ghost, installer):
    await installer.install(bundle(b"a"), ghost.port)
    await installer.ensure_read(ghost.port)
    assert len(ghost.requests) == 1
    ghost.answer = b""
    with pytest.raises(ConnectionError):
        await installer.install(bundle(b"b"), ghost.port)
    ghost.answer = REFUSED
    with pytest.raises(errors.ReloadRejected):
        await installer.install(bundle(b"c"), ghost.port)
    ghost.answer = OK
    await installer.ensure_read(ghost.port)
    assert await installer.install(bundle(b"a"), ghost.port)
    assert len(ghost.requests) == 5
    assert not await installer.install(bundle(b"a"), ghost.port)
    await installer.ensure_read(ghost.port)
    assert len(ghost.requests) == 5


async def test_accepted_bundle_is_not_blamed_for_earlier_deaths(ghost, installer):
    installer.blame(bundle(b"b"))
    assert await installer.install(bundle(b"b"), ghost.port)
    assert await installer.install(bundle(b"a"), ghost.port)
    installer.blame(bundle(b"b"))
    assert await installer.install(bundle(b"b"), ghost.port)
    for _ in range(2):
        installer.blame(bundle(b"b"))
    await installer.install(bundle(b"a"), ghost.port)
    with pytest.raises(errors.ReloadRejected, match="dies whenever"):
        await installer.install(bundle(b"b"), ghost.port)
    installer.close()
