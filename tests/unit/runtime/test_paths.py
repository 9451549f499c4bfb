"""Where paths lead, and what lies below them."""

import os
from pathlib import Path

import pytest

from varnish_gateway.runtime.paths import below, nearest_directory, places


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Paths are relative to a directory without links on the way to it."""
    monkeypatch.chdir(tmp_path.resolve())


def changing(path):
    """Return the places as paths that are relative to here."""
    return [str(Path(*place).relative_to(Path.cwd())) for place in places(path, {})]


def link(path, target):
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).symlink_to(target)


def test_path_without_links_changes_in_one_place():
    assert changing("a.yaml") == ["a.yaml"]
    Path("conf").mkdir()
    assert changing("conf/sub/a.yaml") == ["conf/sub"], "what is not there comes in the nearest directory"


def test_every_link_on_a_path_is_a_place():
    Path("releases/1").mkdir(parents=True)
    link("current", "releases/1")
    link("conf/a.yaml", "../current/a.yaml")
    link("absolute.yaml", Path("conf/a.yaml").absolute())
    assert changing("current/a.yaml") == ["current", "releases/1/a.yaml"]
    assert changing("conf/a.yaml") == ["conf/a.yaml", "current", "releases/1/a.yaml"]
    assert changing("./absolute.yaml") == ["absolute.yaml", "conf/a.yaml", "current", "releases/1/a.yaml"]


def test_parent_of_a_link_is_that_of_its_target():
    Path("there/sub").mkdir(parents=True)
    link("here", "there/sub")
    link("a.yaml", "here/../b.yaml")
    assert changing("a.yaml") == ["a.yaml", "here", "there/b.yaml"]


@pytest.mark.parametrize("target", ["a", "./a", "b", "a/x", "a/../a", "../{here}/a"])
def test_circular_links_end(target):
    link("a", target.format(here=Path.cwd().name))
    link("b", "a")
    assert "a" in changing("a/x.yaml")


def test_known_links_are_not_read_again(monkeypatch):
    known = {}
    link("data", "v1")
    link("a.yaml", "data/a.yaml")
    link("b.yaml", "data/b.yaml")
    list(places("a.yaml", known))
    asked = []
    readlink = os.readlink
    monkeypatch.setattr(os, "readlink", lambda path: asked.append(Path(path).name) or readlink(path))
    list(places("b.yaml", known))
    assert asked == ["b.yaml", "b.yaml"], "the link, and what it leads to"


def test_relative_path_without_a_working_directory_has_no_places(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert list(places("a.yaml", {})) == []
    assert list(places("/", {})) == [("/", "")]


def test_nearest_directory_exists(tmp_path):
    assert nearest_directory(str(tmp_path / "a" / "b" / "c.yaml")) == (str(tmp_path), "a")
    assert nearest_directory(str(tmp_path / "c.yaml")) == (str(tmp_path), "c.yaml")
    assert nearest_directory("c.yaml") == (".", "c.yaml")
    assert nearest_directory(".") == (".", ".")
    assert nearest_directory("/") == ("/", "")


def test_below_lists_visible_entries_without_entering_links(tmp_path):
    for name in ("a.yaml", "sub/b.yaml", ".hidden/c.yaml", "sub/.d.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("sub")
    (tmp_path / "nowhere").symlink_to("nothing")
    found = {os.path.relpath(entry.path, tmp_path) for entry in below(str(tmp_path))}
    assert found == {"a.yaml", "sub", "sub/b.yaml", "link", "nowhere"}
    assert list(below(str(tmp_path / "nothing"))) == []
