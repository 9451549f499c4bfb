"""Directories and symbolic links that move, go and come back are followed."""

import asyncio
import shutil
from pathlib import Path

import pytest
from asyncinotify import Inotify, Mask, Watch

from support.directories import replace
from support.watching import TIMEOUT, changed, is_quiet, write
from varnish_gateway.standalone.files.watcher import ABSENCE_SECONDS, QUIET_SECONDS, Watcher


async def test_change_of_a_links_target_is_reported_at_once(watcher, conf):
    (conf / "link.yaml").symlink_to("a.yaml")
    await changed(watcher, conf / "link.yaml")
    (conf / "a.yaml").write_text("a: 22\n")
    async with asyncio.timeout(ABSENCE_SECONDS / 2):
        await changed(watcher, conf / "a.yaml", conf / "link.yaml")


async def test_new_directories_are_watched(watcher, conf):
    (conf / "sub" / "sub").mkdir(parents=True)
    (conf / "sub" / "sub" / "c.yaml").write_text("c: 1\n")
    await changed(watcher, conf / "sub" / "sub" / "c.yaml")
    (conf / "sub" / "sub" / "c.yaml").write_text("c: 22\n")
    await changed(watcher, conf / "sub" / "sub" / "c.yaml")
    shutil.rmtree(conf / "sub")
    await changed(watcher, conf / "sub" / "sub" / "c.yaml")


async def test_deleted_directory_with_two_paths_is_unwatched_by_both(conf, tmp_path):
    root = tmp_path / "other"
    root.symlink_to(conf)
    (conf / "b.yaml").unlink()
    (conf / "b.yaml").symlink_to("a.yaml")
    with Watcher([str(root)]) as watcher:
        assert {str(root), str(conf)} <= set(watcher.directories)
        shutil.rmtree(conf)
        await changed(watcher, root / "a.yaml", root / "b.yaml")
        assert not {str(root), str(conf)} & set(watcher.directories)


async def test_files_below_a_moved_directory_are_followed(watcher, conf):
    x, moved = conf / "old" / "sub" / "x.yaml", conf / "new" / "sub" / "x.yaml"
    write(x, "x: 1\n")
    await changed(watcher, x)
    (conf / "old").rename(conf / "new")
    await changed(watcher, x, moved)
    moved.write_text("x: 22\n")
    await changed(watcher, moved)
    moved.with_name("y.yaml").write_text("y: 1\n")
    await changed(watcher, moved.with_name("y.yaml"))


async def test_replaced_tree_is_watched_and_the_old_one_is_not(watcher, conf, tmp_path):
    x = conf / "routes" / "sub" / "x.yaml"
    write(x, "x: 1\n")
    await changed(watcher, x)
    write(tmp_path / "stage" / "sub" / "x.yaml", "x: 2\n")
    (conf / "routes").rename(tmp_path / "old")
    (tmp_path / "stage").rename(conf / "routes")
    await changed(watcher, x)
    x.write_text("x: 333\n")
    await changed(watcher, x)
    (tmp_path / "old" / "sub" / "x.yaml").write_text("x: 4444\n")
    await is_quiet(watcher, conf / "b.yaml")


@pytest.mark.parametrize(
    ("root", "link"),
    [
        ("current", "current"),
        ("current/x.yaml", "current"),
        ("linked", "linked/x.yaml"),
        ("linked", "linked/sub"),
        ("linked/x.yaml", "linked/x.yaml"),
    ],
)
async def test_swapped_link_anywhere_on_the_path_is_followed(tmp_path, root, link):
    """Releases are put in place like this: current leads to one of them."""
    for release in ("1", "2"):
        write(tmp_path / "releases" / release / "x.yaml", f"x: {release}\n")
    (tmp_path / "current").symlink_to("releases/1")
    (tmp_path / "linked").mkdir()
    if link.startswith("linked"):
        (tmp_path / link).symlink_to(tmp_path / "current" / ("x.yaml" if link.endswith(".yaml") else "."))
    with Watcher([str(tmp_path / root)]) as watcher:
        (x,) = map(Path, watcher.files)
        (tmp_path / "next").symlink_to("releases/2")
        (tmp_path / "next").rename(tmp_path / "current")
        await changed(watcher, x)
        (tmp_path / "releases" / "1" / "x.yaml").write_text("x: 4444\n")
        (tmp_path / "releases" / "2" / "x.yaml").write_text("x: 333\n")
        async with asyncio.timeout(TIMEOUT):
            assert await watcher.changed() == {str(x)}
        (tmp_path / "releases" / "1" / "x.yaml").write_text("x: 55555\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watcher.changed(), 20 * QUIET_SECONDS)


async def test_directory_linked_a_second_time_is_reported(watcher, conf, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "x.yaml", "x: 1\n")
    (conf / "x.yaml").symlink_to(elsewhere / "x.yaml")
    await changed(watcher, conf / "x.yaml")
    (conf / "sub").symlink_to(elsewhere)
    await changed(watcher, conf / "sub" / "x.yaml")
    (elsewhere / "y.yaml").write_text("y: 1\n")
    await changed(watcher, conf / "sub" / "y.yaml")


async def test_second_link_to_the_same_target_is_followed(watcher, conf, tmp_path):
    write(tmp_path / "elsewhere" / "x.yaml", "x: 1\n")
    (conf / "two").symlink_to(tmp_path / "elsewhere")
    await changed(watcher, conf / "two" / "x.yaml")
    (conf / "one").symlink_to(tmp_path / "elsewhere")
    await changed(watcher, conf / "one" / "x.yaml")
    (conf / "two").unlink()
    await changed(watcher, conf / "two" / "x.yaml")


async def test_recreated_target_of_a_link_is_reported(watcher, conf, tmp_path):
    target = tmp_path / "elsewhere" / "x.yaml"
    write(target, "x: 1\n")
    (conf / "x.yaml").symlink_to(target)
    await changed(watcher, conf / "x.yaml")
    shutil.rmtree(target.parent)
    await changed(watcher, conf / "x.yaml")
    write(target, "x: 2\n")
    await changed(watcher, conf / "x.yaml")


async def test_unwatchable_directory_is_logged(conf, tmp_path, monkeypatch, caplog):
    add_watch = Inotify.add_watch

    def refuse(self: Inotify, path: str, mask: Mask) -> Watch:
        if path == str(tmp_path):
            raise PermissionError(13, "Permission denied")
        return add_watch(self, path, mask)

    monkeypatch.setattr(Inotify, "add_watch", refuse)
    with Watcher([str(conf)]) as watcher:
        assert f"can't watch {tmp_path}" in caplog.text
        await is_quiet(watcher, conf / "a.yaml")


async def test_directory_moved_in_and_out_is_followed(watcher, conf, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.yaml").write_text("c: 1\n")
    outside.rename(conf / "inside")
    await changed(watcher, conf / "inside" / "c.yaml")
    (conf / "inside").rename(tmp_path / "outside")
    await changed(watcher, conf / "inside" / "c.yaml")
    (outside / "c.yaml").write_text("c: 2\n")
    await is_quiet(watcher, conf / "a.yaml")


async def test_recreated_root_is_watched_again(watcher, conf):
    shutil.rmtree(conf)
    await changed(watcher, conf / "a.yaml", conf / "b.yaml")
    conf.mkdir()
    (conf / "a.yaml").write_text("a: 3\n")
    await changed(watcher, conf / "a.yaml")
    (conf / "a.yaml").write_text("a: 4\n")
    await changed(watcher, conf / "a.yaml")


async def test_root_with_a_recreated_parent_is_watched_again(tmp_path):
    conf = tmp_path / "up" / "conf"
    conf.mkdir(parents=True)
    (conf / "a.yaml").write_text("a: 1\n")
    with Watcher([str(conf)]) as watcher:
        shutil.rmtree(tmp_path / "up")
        await changed(watcher, conf / "a.yaml")
        conf.mkdir(parents=True)
        (conf / "a.yaml").write_text("a: 2\n")
        await changed(watcher, conf / "a.yaml")


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


async def test_swapped_configmap_mount_reports_all_its_files(tmp_path):
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


async def test_link_to_a_file_elsewhere_is_followed(watcher, conf, tmp_path):
    target = tmp_path / "elsewhere" / "x.yaml"
    target.parent.mkdir()
    target.write_text("x: 1\n")
    (conf / "x.yaml").symlink_to(target)
    await changed(watcher, conf / "x.yaml")
    target.write_text("x: 22\n")
    await changed(watcher, conf / "x.yaml")
    replace(target, "x: 333\n")
    await changed(watcher, conf / "x.yaml")


async def test_link_and_its_watched_target_are_both_reported(watcher, conf):
    (conf / "link.yaml").symlink_to("a.yaml")
    await changed(watcher, conf / "link.yaml")
    (conf / "a.yaml").write_text("a: 22\n")
    await changed(watcher, conf / "a.yaml", conf / "link.yaml")


@pytest.mark.usefixtures("_long_absence")
async def test_directory_renamed_into_place_is_reported_at_once(watcher, conf):
    """What is renamed into place is not being written."""
    write(conf / "sub" / "c.yaml", "c: 1\n")
    await changed(watcher, conf / "sub" / "c.yaml")
    found = asyncio.create_task(watcher.changed())
    (conf / "sub").rename(conf.parent / "away")
    await asyncio.sleep(20 * QUIET_SECONDS)
    write(conf.parent / "new" / "c.yaml", "c: 2\n")
    (conf.parent / "new").rename(conf / "sub")
    assert await asyncio.wait_for(found, TIMEOUT) == {str(conf / "sub" / "c.yaml")}


async def test_replaced_directory_is_not_reported_as_deleted(watcher, conf):
    shutil.copytree(conf, conf.parent / "other")
    found = asyncio.create_task(watcher.changed())
    shutil.rmtree(conf)
    await asyncio.sleep(10 * QUIET_SECONDS)
    (conf.parent / "other").rename(conf)
    assert await found == {str(conf / "a.yaml"), str(conf / "b.yaml")}
    assert len(watcher.files) == 2
