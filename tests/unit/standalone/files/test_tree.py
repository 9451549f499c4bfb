"""Which manifests lie under the paths that a person gave."""

import pytest

from varnish_gateway import errors
from varnish_gateway.standalone.files.tree import check_roots, scan


def test_directories_are_scanned_recursively(tmp_path):
    for name in ("a.yaml", "sub/b.yml", "sub/sub/c.json", "readme.md", ".hidden.yaml", ".git/d.yaml", "sub/e.yaml~"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    tree = scan([str(tmp_path)])
    assert list(tree.files) == [str(tmp_path / name) for name in ("a.yaml", "sub/b.yml", "sub/sub/c.json")]
    assert list(tree.directories) == [str(tmp_path), str(tmp_path / "sub"), str(tmp_path / "sub/sub")]


def test_links_are_followed_without_looping(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.yaml").touch()
    (tmp_path / "real" / "back").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "first" / "link").mkdir(parents=True)
    (tmp_path / "first" / "link" / "real").symlink_to(tmp_path / "real")
    assert list(scan([str(tmp_path)]).files) == [str(tmp_path / "real" / "a.yaml")], "a link gives no other name"
    assert list(scan([str(tmp_path / "link")]).files)[-1] == str(tmp_path / "link" / "a.yaml")


def test_circular_and_dangling_links_are_not_manifests(tmp_path):
    (tmp_path / "a.yaml").symlink_to("a.yaml")
    (tmp_path / "b.yaml").symlink_to("nothing.yaml")
    (tmp_path / "c.yaml").touch()
    tree = scan([str(tmp_path)])
    assert list(tree.files) == [str(tmp_path / "c.yaml")]
    assert list(tree.links) == [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]


def test_file_given_twice_is_listed_once(tmp_path):
    file = tmp_path / "a.yaml"
    file.touch()
    assert list(scan([str(file), str(file)]).files) == [str(file)]


def test_missing_path_is_an_error(tmp_path):
    with pytest.raises(errors.BadSettings, match="no such file or directory"):
        check_roots([str(tmp_path / "x.yaml")])


def test_file_that_is_not_a_manifest_is_an_error(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(errors.BadSettings, match=r"has to end in \.yaml, \.yml, \.json"):
        check_roots([str(tmp_path / "notes.txt")])


def test_unlistable_directory_is_logged(tmp_path, monkeypatch, caplog):
    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.scandir", refuse)
    assert scan([str(tmp_path)]).files == {}
    assert caplog.messages == [f"can't list {tmp_path}: Permission denied"]
