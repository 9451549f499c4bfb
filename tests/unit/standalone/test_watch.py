"""Changes of manifests are noticed, whatever way they come."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from varnish_gateway.standalone.tree import Tree, scan
from varnish_gateway.standalone.watch import ABSENCE, SETTLE, Watcher

PATIENCE = 5.0


@pytest.fixture
def conf(tmp_path):
    directory = tmp_path / "conf"
    directory.mkdir()
    (directory / "a.yaml").write_text("a: 1\n")
    (directory / "b.yaml").write_text("b: 1\n")
    return directory


@pytest.fixture
def watcher(conf):
    with Watcher([str(conf)]) as watching:
        yield watching


async def changed(watcher: Watcher, *wanted: Path) -> None:
    """Wait until exactly these files were named, in one set or in several."""
    missing = {str(path) for path in wanted}
    async with asyncio.timeout(PATIENCE):
        while missing:
            found = await watcher.changed()
            assert found <= {str(path) for path in wanted}
            missing -= found


async def is_quiet(watcher: Watcher, probe: Path) -> None:
    """Nothing but the probe was noticed."""
    probe.write_text("probe: 1\n")
    await changed(watcher, probe)


def replace(path: Path, text: str) -> None:
    """Write as editors do: beside it, then by rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text)
    temporary.rename(path)


async def test_what_is_there(watcher, conf):
    assert watcher.files == [str(conf / "a.yaml"), str(conf / "b.yaml")]


async def test_write_and_rename_and_removal_name_one_file(watcher, conf):
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


async def test_a_file_counts_once_its_writer_closes_it(watcher, conf):
    with (conf / "a.yaml").open("w") as writer:
        writer.write("half")
        writer.flush()
        await is_quiet(watcher, conf / "b.yaml")
        writer.write("whole")
    await changed(watcher, conf / "a.yaml")


@pytest.mark.parametrize("event", ["permissions", "a directory", "a link"])
async def test_whatever_else_happens_a_file_that_is_being_written_is_not_read(watcher, conf, event):
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
            await asyncio.sleep(ABSENCE * 0.7)
            writer.write(word)
            writer.flush()
    await changed(watcher, conf / "a.yaml")


async def test_a_write_whose_end_was_not_told_is_told_a_moment_later(watcher, conf):
    with (conf / "a.yaml").open("w") as writer:
        (conf / "sub").mkdir()
        await is_quiet(watcher, conf / "b.yaml")
        await changed(watcher, conf / "a.yaml")
        writer.write("a: 2\n")
    await changed(watcher, conf / "a.yaml")


async def test_a_link_tells_of_its_target_at_once(watcher, conf):
    (conf / "link.yaml").symlink_to("a.yaml")
    await changed(watcher, conf / "link.yaml")
    (conf / "a.yaml").write_text("a: 22\n")
    async with asyncio.timeout(ABSENCE / 2):
        await changed(watcher, conf / "a.yaml", conf / "link.yaml")


async def test_bookkeeping_of_editors_is_passed_over(watcher, conf):
    for name in (".a.yaml.swp", "4913", "a.yaml~", "notes.txt"):
        (conf / name).write_text("x")
        (conf / name).unlink()
    await is_quiet(watcher, conf / "b.yaml")


async def test_new_directories_are_watched(watcher, conf):
    (conf / "sub" / "sub").mkdir(parents=True)
    (conf / "sub" / "sub" / "c.yaml").write_text("c: 1\n")
    await changed(watcher, conf / "sub" / "sub" / "c.yaml")
    (conf / "sub" / "sub" / "c.yaml").write_text("c: 22\n")
    await changed(watcher, conf / "sub" / "sub" / "c.yaml")
    shutil.rmtree(conf / "sub")
    await changed(watcher, conf / "sub" / "sub" / "c.yaml")


async def test_a_directory_that_goes_costs_no_walk_over_all_others(watcher, conf):
    class Unwalked(dict[str, int]):
        def __iter__(self):
            raise AssertionError("walked")

        items = keys = values = __iter__

    (conf / "sub").mkdir()
    (conf / "sub" / "c.yaml").write_text("c: 1\n")
    await changed(watcher, conf / "sub" / "c.yaml")
    watcher._watched = Unwalked(watcher._watched)
    shutil.rmtree(conf / "sub")
    await changed(watcher, conf / "sub" / "c.yaml")
    assert str(conf / "sub") not in watcher._watched


async def test_a_directory_of_two_names_is_forgotten_by_both(conf, tmp_path):
    root = tmp_path / "other"
    root.symlink_to(conf)
    (conf / "b.yaml").unlink()
    (conf / "b.yaml").symlink_to("a.yaml")
    with Watcher([str(root)]) as watcher:
        assert {str(root), str(conf)} <= watcher._watched.keys()
        shutil.rmtree(conf)
        await changed(watcher, root / "a.yaml", root / "b.yaml")
        assert not {str(root), str(conf)} & watcher._watched.keys()


async def test_a_directory_that_moves_in_and_out(watcher, conf, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.yaml").write_text("c: 1\n")
    outside.rename(conf / "inside")
    await changed(watcher, conf / "inside" / "c.yaml")
    (conf / "inside").rename(tmp_path / "outside")
    await changed(watcher, conf / "inside" / "c.yaml")
    (outside / "c.yaml").write_text("c: 2\n")
    await is_quiet(watcher, conf / "a.yaml")


async def test_the_directory_itself_comes_back(watcher, conf):
    shutil.rmtree(conf)
    await changed(watcher, conf / "a.yaml", conf / "b.yaml")
    conf.mkdir()
    (conf / "a.yaml").write_text("a: 3\n")
    await changed(watcher, conf / "a.yaml")
    (conf / "a.yaml").write_text("a: 4\n")
    await changed(watcher, conf / "a.yaml")


async def test_a_directory_whose_parent_comes_back(tmp_path):
    conf = tmp_path / "up" / "conf"
    conf.mkdir(parents=True)
    (conf / "a.yaml").write_text("a: 1\n")
    with Watcher([str(conf)]) as watcher:
        shutil.rmtree(tmp_path / "up")
        await changed(watcher, conf / "a.yaml")
        conf.mkdir(parents=True)
        (conf / "a.yaml").write_text("a: 2\n")
        await changed(watcher, conf / "a.yaml")


async def test_a_file_given_by_name(conf):
    with Watcher([str(conf / "a.yaml")]) as watcher:
        assert watcher.files == [str(conf / "a.yaml")]
        (conf / "b.yaml").write_text("b: 2\n")
        replace(conf / "a.yaml", "a: 2\n")
        await changed(watcher, conf / "a.yaml")
        (conf / "a.yaml").unlink()
        await changed(watcher, conf / "a.yaml")
        (conf / "a.yaml").write_text("a: 3\n")
        await changed(watcher, conf / "a.yaml")


async def test_a_relative_path(conf, monkeypatch):
    monkeypatch.chdir(conf)
    with Watcher(["./"]) as watcher:
        assert watcher.files == ["./a.yaml", "./b.yaml"]
        (conf / "a.yaml").write_text("a: 2\n")
        async with asyncio.timeout(PATIENCE):
            assert await watcher.changed() == {"./a.yaml"}


def mount(directory: Path, version: str, **files: str) -> None:
    """Write files as the kubelet writes a ConfigMap: all of them change with one rename."""
    (directory / f"..{version}").mkdir()
    for name, text in files.items():
        (directory / f"..{version}" / f"{name}.yaml").write_text(text)
    (directory / "..data_tmp").symlink_to(f"..{version}")
    (directory / "..data_tmp").rename(directory / "..data")
    for name in files:
        if not (directory / f"{name}.yaml").is_symlink():
            (directory / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")


async def test_a_configmap_mount(tmp_path):
    conf = tmp_path / "mount"
    conf.mkdir()
    mount(conf, "v1", a="a: 1\n", b="b: 1\n")
    with Watcher([str(conf)]) as watcher:
        assert watcher.files == [str(conf / "a.yaml"), str(conf / "b.yaml")]
        for version in ("v2", "v3"):
            mount(conf, version, a=f"a: {version}\n", b=f"b: {version}\n")
            await changed(watcher, conf / "a.yaml", conf / "b.yaml")
        shutil.rmtree(conf / "..v1")
        await is_quiet(watcher, conf / "c.yaml")
        (conf / "..data").unlink()
        await changed(watcher, conf / "a.yaml", conf / "b.yaml")


async def test_links_to_files_elsewhere(watcher, conf, tmp_path):
    target = tmp_path / "elsewhere" / "x.yaml"
    target.parent.mkdir()
    target.write_text("x: 1\n")
    (conf / "x.yaml").symlink_to(target)
    await changed(watcher, conf / "x.yaml")
    target.write_text("x: 22\n")
    await changed(watcher, conf / "x.yaml")
    replace(target, "x: 333\n")
    await changed(watcher, conf / "x.yaml")


async def test_links_to_files_that_are_watched_themselves(watcher, conf):
    (conf / "link.yaml").symlink_to("a.yaml")
    await changed(watcher, conf / "link.yaml")
    (conf / "a.yaml").write_text("a: 22\n")
    await changed(watcher, conf / "a.yaml", conf / "link.yaml")


async def test_what_appears_before_a_directory_is_watched_is_found(watcher, conf, monkeypatch):
    def scan_and_write(roots: list[str]) -> Tree:
        tree = scan(roots)
        if str(conf / "sub") in tree.directories and not (conf / "sub" / "c.yaml").exists():
            (conf / "sub" / "c.yaml").write_text("c: 1\n")
        return tree

    monkeypatch.setattr("varnish_gateway.standalone.watch.scan", scan_and_write)
    (conf / "sub").mkdir()
    await changed(watcher, conf / "sub" / "c.yaml")


async def test_a_hard_link_comes_without_a_write(watcher, conf, tmp_path):
    (tmp_path / "x.yaml").write_text("x: 1\n")
    os.link(tmp_path / "x.yaml", conf / "x.yaml")
    await changed(watcher, conf / "x.yaml")


async def test_other_permissions_may_make_it_readable(watcher, conf):
    (conf / "a.yaml").chmod(0o600)
    await changed(watcher, conf / "a.yaml")


async def test_other_permissions_count_also_after_another_time(watcher, conf):
    os.utime(conf / "a.yaml", (1, 1))
    (conf / "a.yaml").chmod(0o600)
    await changed(watcher, conf / "a.yaml")


async def test_a_burst_is_one_set(watcher, conf):
    for number in range(300):
        (conf / f"n{number}.yaml").write_text("x: 1\n")
    async with asyncio.timeout(PATIENCE):
        assert len(await watcher.changed()) == 300


async def test_lost_events_are_made_good(watcher, conf):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 50_000:
        pytest.skip("the queue is too long to be filled in a test")
    for _ in range(limit // 2 + 10):
        (conf / "notes.txt").write_text("x")
        (conf / "notes.txt").unlink()
    (conf / "a.yaml").write_text("a: 22\n")
    await changed(watcher, conf / "a.yaml")


async def test_changes_one_after_another_are_each_noticed(watcher, conf):
    for number in range(20):
        replace(conf / "a.yaml", f"a: {number}\n")
        await changed(watcher, conf / "a.yaml")


async def test_a_file_that_is_removed_and_written_anew_was_never_gone(watcher, conf):
    (conf / "a.yaml").unlink()
    await is_quiet(watcher, conf / "b.yaml")
    with (conf / "a.yaml").open("w") as writer:
        writer.write("half")
        writer.flush()
        await asyncio.sleep(ABSENCE)
        await is_quiet(watcher, conf / "b.yaml")
        writer.write("whole")
    await changed(watcher, conf / "a.yaml")
    assert str(conf / "a.yaml") in watcher.files


async def test_a_directory_that_is_replaced_was_never_gone(watcher, conf):
    shutil.copytree(conf, conf.parent / "other")
    found = asyncio.create_task(watcher.changed())
    shutil.rmtree(conf)
    await asyncio.sleep(10 * SETTLE)
    (conf.parent / "other").rename(conf)
    assert await found == {str(conf / "a.yaml"), str(conf / "b.yaml")}
    assert len(watcher.files) == 2
