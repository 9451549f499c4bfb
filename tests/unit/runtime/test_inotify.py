"""Changes near a path, as editors, mounts and people make them."""

import asyncio
import contextlib

import pytest

from varnish_gateway.runtime.inotify import bursts, directories

SECONDS = 10


@pytest.fixture
async def changed(tmp_path):
    """Wait for the next burst near tmp_path/conf; watching has begun."""
    watching = bursts(lambda: [tmp_path / "conf"])
    await anext(watching)

    async def changed() -> None:
        async with asyncio.timeout(SECONDS):
            await anext(watching)

    async with contextlib.aclosing(watching):
        yield changed


async def quiet(changed) -> asyncio.Task[None]:
    """Wait until all is quiet; return the wait for what comes next."""
    while True:
        waiting = asyncio.create_task(changed())
        await asyncio.wait({waiting}, timeout=0.1)
        if not waiting.done():
            return waiting


def swap(tmp_path, kind: str) -> None:
    """Let "new" be what "conf" is."""
    if kind == "link":
        (tmp_path / "next").symlink_to("new")
        (tmp_path / "next").rename(tmp_path / "conf")
    else:
        (tmp_path / "conf").rename(tmp_path / "away")
        (tmp_path / "new").rename(tmp_path / "conf")


async def test_missing_path_is_watched_level_by_level(tmp_path, changed):
    (tmp_path / "conf").mkdir()
    await changed()
    (tmp_path / "conf" / "sub").mkdir()
    await changed()
    (tmp_path / "conf" / "sub" / "a").write_text("x")
    await changed()


async def test_swapped_symlink_is_reported(tmp_path, changed):
    """A mounted ConfigMap changes like this."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    await changed()
    (tmp_path / "conf").symlink_to("old")
    await changed()
    (tmp_path / "next").symlink_to("new")
    (tmp_path / "next").rename(tmp_path / "conf")
    await changed()


@pytest.mark.parametrize("below", ["", "main.vcl"])
@pytest.mark.parametrize("kind", ["link", "directory"])
async def test_target_of_a_swap_is_watched(tmp_path, kind, below):
    """A release is put in place like this."""
    conf = tmp_path / "conf"
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    conf.symlink_to("old") if kind == "link" else (tmp_path / "old").rename(conf)
    async with contextlib.aclosing(bursts(lambda: [conf / below])) as watching:
        await anext(watching)
        waiting = await quiet(watching.__anext__)
        swap(tmp_path, kind)
        await asyncio.wait_for(waiting, SECONDS)
        for text in ("one", "two"):
            waiting = await quiet(watching.__anext__)
            (conf / "main.vcl").write_text(text)
            await asyncio.wait_for(waiting, SECONDS)


@pytest.mark.parametrize("path", ["main.vcl", ""])
async def test_target_of_a_link_is_watched(tmp_path, path):
    """As with certificates that something else renews: links to links."""
    for name in ("etc", "live", "archive", "archive2"):
        (tmp_path / name).mkdir()
    (tmp_path / "archive" / "one.vcl").write_text("1")
    (tmp_path / "archive2" / "one.vcl").write_text("1")
    (tmp_path / "live" / "current").symlink_to("../archive")
    (tmp_path / "etc" / "main.vcl").symlink_to(tmp_path / "live" / "current" / "one.vcl")
    async with contextlib.aclosing(bursts(lambda: [tmp_path / "etc" / path])) as watching:
        waiting = await quiet(watching.__anext__)
        (tmp_path / "archive" / "one.vcl").write_text("2")
        await asyncio.wait_for(waiting, SECONDS)
        waiting = await quiet(watching.__anext__)
        (tmp_path / "live" / "next").symlink_to("../archive2")
        (tmp_path / "live" / "next").rename(tmp_path / "live" / "current")
        await asyncio.wait_for(waiting, SECONDS)
        waiting = await quiet(watching.__anext__)
        (tmp_path / "archive2" / "one.vcl").write_text("3")
        await asyncio.wait_for(waiting, SECONDS)


async def test_moved_directory_is_not_watched_any_more(tmp_path, changed):
    (tmp_path / "conf").mkdir()
    await changed()
    (tmp_path / "conf").rename(tmp_path / "away")
    waiting = await quiet(changed)
    (tmp_path / "away" / "a").write_text("x")
    await asyncio.wait({waiting}, timeout=0.2)
    assert not waiting.done()
    (tmp_path / "b").write_text("x")
    await waiting


async def test_recreated_directory_is_watched_again(tmp_path, changed):
    conf = tmp_path / "conf"
    for _ in range(2):
        conf.mkdir()
        await changed()
        (conf / "a").write_text("x")
        await changed()
        (conf / "a").unlink()
        conf.rmdir()
        await changed()


def test_nearest_existing_directories_are_watched(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").touch()
    assert directories([tmp_path / "file"]) == {tmp_path}
    assert directories([tmp_path / "no" / "such" / "file"]) == {tmp_path}
    assert directories([tmp_path / "a"]) == {tmp_path, tmp_path / "a", tmp_path / "a" / "b"}
