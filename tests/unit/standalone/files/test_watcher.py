"""Changes of manifests are noticed, whatever way they come."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from support.directories import replace
from support.watching import TIMEOUT, changed, is_quiet, write
from varnish_gateway.standalone.files.tree import Tree, scan
from varnish_gateway.standalone.files.watcher import ABSENCE_SECONDS, QUIET_SECONDS, Watcher


async def test_existing_manifests_are_listed(watcher, conf):
    assert watcher.files == [str(conf / "a.yaml"), str(conf / "b.yaml")]


async def test_write_rename_and_removal_report_one_file(watcher, conf):
    (conf / "a.yaml").write_text("a: 2\n")
    await changed(watcher, conf / "a.yaml")
    replace(conf / "b.yaml", "b: 2\n")
    await changed(watcher, conf / "b.yaml")
    (conf / "a.yaml").unlink()
    await changed(watcher, conf / "a.yaml")
    (conf / "c.yaml").write_text("c: 1\n")
    await changed(watcher, conf / "c.yaml")
    (conf / "c.yaml").rename(conf / "d.yaml")
    await changed(watcher, conf / "c.yaml", conf / "d.yaml")
    assert sorted(watcher.files) == [str(conf / "b.yaml"), str(conf / "d.yaml")]


async def test_rescan_returns_everything_but_what_may_be_being_written(watcher, conf):
    assert watcher.rescan() == {str(conf / "a.yaml"), str(conf / "b.yaml")}
    with (conf / "a.yaml").open("w") as writer:
        writer.write("half")
        writer.flush()
        assert watcher.rescan() == {str(conf / "b.yaml")}
    await changed(watcher, conf / "a.yaml")


async def test_file_is_reported_when_its_writer_closes_it(watcher, conf):
    with (conf / "a.yaml").open("w") as writer:
        writer.write("half")
        writer.flush()
        await is_quiet(watcher, conf / "b.yaml")
        writer.write("whole")
    await changed(watcher, conf / "a.yaml")


@pytest.mark.parametrize("event", ["permissions", "a directory", "a link"])
async def test_file_being_written_is_not_reported_whatever_else_happens(watcher, conf, event):
    """Cut at the end of a document it would be valid, and lack the objects behind that."""
    with (conf / "a.yaml").open("w") as writer:
        if event == "permissions":
            os.fchmod(writer.fileno(), 0o600)
        elif event == "a directory":
            (conf / "sub").mkdir()
        else:
            (conf / "link.yaml").symlink_to("b.yaml")
            await changed(watcher, conf / "link.yaml")
        for word in ("first", "second", "third"):
            await is_quiet(watcher, conf / "probe.yaml")
            await asyncio.sleep(ABSENCE_SECONDS * 0.7)
            writer.write(word)
            writer.flush()
    await changed(watcher, conf / "a.yaml")


async def test_write_without_a_close_event_is_reported_later(watcher, conf):
    with (conf / "a.yaml").open("w") as writer:
        (conf / "sub").mkdir()
        await is_quiet(watcher, conf / "b.yaml")
        await changed(watcher, conf / "a.yaml")
        writer.write("a: 2\n")
    await changed(watcher, conf / "a.yaml")


async def test_temporary_files_of_editors_are_ignored(watcher, conf):
    for name in (".a.yaml.swp", "4913", "a.yaml~", "notes.txt"):
        (conf / name).write_text("x")
        (conf / name).unlink()
    await is_quiet(watcher, conf / "b.yaml")


@pytest.mark.parametrize("pause", [0, 20 * QUIET_SECONDS])
async def test_file_replaced_by_a_directory_counts_as_deleted(watcher, conf, tmp_path, pause):
    write(tmp_path / "elsewhere" / "x.yaml", "x: 1\n")
    (conf / "a.yaml").unlink()
    await asyncio.sleep(pause)
    (conf / "a.yaml").symlink_to(tmp_path / "elsewhere")
    await changed(watcher, conf / "a.yaml", conf / "a.yaml" / "x.yaml")


async def test_file_as_root_is_watched(conf):
    with Watcher([str(conf / "a.yaml")]) as watcher:
        assert watcher.files == [str(conf / "a.yaml")]
        (conf / "b.yaml").write_text("b: 2\n")
        replace(conf / "a.yaml", "a: 2\n")
        await changed(watcher, conf / "a.yaml")
        (conf / "a.yaml").unlink()
        await changed(watcher, conf / "a.yaml")
        (conf / "a.yaml").write_text("a: 3\n")
        await changed(watcher, conf / "a.yaml")


@pytest.mark.parametrize("name", ["a.yaml", "./a.yaml", "../conf/a.yaml"])
async def test_relative_file_as_root_is_watched(conf, monkeypatch, name):
    """Not even size and time tell what cp -p wrote."""
    monkeypatch.chdir(conf)
    os.utime("a.yaml", (1, 1))
    with Watcher([name]) as watcher:
        Path("a.yaml").write_text("a: 2\n")
        os.utime("a.yaml", (1, 1))
        async with asyncio.timeout(TIMEOUT):
            assert await watcher.changed() == set(watcher.files)


async def test_file_given_beside_its_directory_is_reported_by_all_paths(conf, monkeypatch):
    monkeypatch.chdir(conf)
    with Watcher([".", "a.yaml", str(conf / "a.yaml")]) as watcher:
        names = {"./a.yaml", "a.yaml", str(conf / "a.yaml")}
        assert set(watcher.files) == {*names, "./b.yaml"}
        for text in ("a: 2\n", "a: 3\n"):
            Path("a.yaml").unlink()
            Path("a.yaml").write_text(text)
            async with asyncio.timeout(TIMEOUT):
                assert await watcher.changed() == names


async def test_deleted_working_directory_is_reported(conf, monkeypatch):
    monkeypatch.chdir(conf)
    with Watcher(["."]) as watcher:
        shutil.rmtree(conf)
        async with asyncio.timeout(TIMEOUT):
            assert await watcher.changed() == {"./a.yaml", "./b.yaml"}


async def test_relative_directory_is_watched(conf, monkeypatch):
    monkeypatch.chdir(conf)
    with Watcher(["./"]) as watcher:
        assert watcher.files == ["./a.yaml", "./b.yaml"]
        (conf / "a.yaml").write_text("a: 2\n")
        async with asyncio.timeout(TIMEOUT):
            assert await watcher.changed() == {"./a.yaml"}


async def test_file_created_before_the_watch_is_found(watcher, conf, monkeypatch):
    def scan_and_write(roots: list[str]) -> Tree:
        tree = scan(roots)
        if str(conf / "sub") in tree.directories and not (conf / "sub" / "c.yaml").exists():
            (conf / "sub" / "c.yaml").write_text("c: 1\n")
        return tree

    monkeypatch.setattr("varnish_gateway.standalone.files.watcher.scan", scan_and_write)
    (conf / "sub").mkdir()
    await changed(watcher, conf / "sub" / "c.yaml")


async def test_new_hard_link_is_reported(watcher, conf, tmp_path):
    (tmp_path / "x.yaml").write_text("x: 1\n")
    os.link(tmp_path / "x.yaml", conf / "x.yaml")
    await changed(watcher, conf / "x.yaml")


async def test_changed_permissions_are_reported(watcher, conf):
    (conf / "a.yaml").chmod(0o600)
    await changed(watcher, conf / "a.yaml")


async def test_changed_permissions_after_a_new_time_are_reported(watcher, conf):
    os.utime(conf / "a.yaml", (1, 1))
    (conf / "a.yaml").chmod(0o600)
    await changed(watcher, conf / "a.yaml")


async def test_burst_is_reported_as_one_set(watcher, conf):
    for number in range(300):
        (conf / f"n{number}.yaml").write_text("x: 1\n")
    async with asyncio.timeout(TIMEOUT):
        assert len(await watcher.changed()) == 300


async def test_lost_events_cause_a_scan(watcher, conf):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 50_000:
        pytest.skip("the queue is too long to be filled in a test")
    for _ in range(limit // 2 + 10):
        (conf / "notes.txt").write_text("x")
        (conf / "notes.txt").unlink()
    (conf / "a.yaml").write_text("a: 22\n")
    await changed(watcher, conf / "a.yaml")


async def test_consecutive_changes_are_each_reported(watcher, conf):
    for number in range(20):
        replace(conf / "a.yaml", f"a: {number}\n")
        await changed(watcher, conf / "a.yaml")


async def test_file_deleted_and_rewritten_is_not_reported_as_deleted(watcher, conf):
    (conf / "a.yaml").unlink()
    await is_quiet(watcher, conf / "b.yaml")
    with (conf / "a.yaml").open("w") as writer:
        writer.write("half")
        writer.flush()
        await asyncio.sleep(ABSENCE_SECONDS)
        await is_quiet(watcher, conf / "b.yaml")
        writer.write("whole")
    await changed(watcher, conf / "a.yaml")
    assert str(conf / "a.yaml") in watcher.files


@pytest.mark.usefixtures("_long_absence")
@pytest.mark.parametrize("root", ["conf", "conf/a.yaml"])
@pytest.mark.parametrize("pause", [0, 20 * QUIET_SECONDS])
async def test_recreated_file_is_not_reported_before_it_is_closed(conf, root, pause):
    """Empty, or cut at the end of a document, it would be valid, and lack objects."""
    with Watcher([str(conf.parent / root)]) as watcher:
        found = asyncio.create_task(watcher.changed())
        (conf / "a.yaml").unlink()
        await asyncio.sleep(pause)
        with (conf / "a.yaml").open("w") as writer:
            (conf / "sub").mkdir()
            await asyncio.wait({found}, timeout=100 * QUIET_SECONDS)
            assert not found.done()
            writer.write("whole")
        assert await asyncio.wait_for(found, TIMEOUT) == {str(conf / "a.yaml")}
