"""Files on disk as objects."""

import pytest

from varnish_gateway.api import Key
from varnish_gateway.standalone.files.reader import Files
from varnish_gateway.standalone.schema import Catalogue

SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: tea}\nspec: {ports: [{port: %d}]}\n"
TEA = Key("Service", "default", "tea")


@pytest.fixture
def files() -> Files:
    return Files(Catalogue())


def test_unchanged_bytes_are_not_parsed_again(files, tmp_path, monkeypatch):
    path = tmp_path / "a.yaml"
    path.write_text(SERVICE % 80)
    assert TEA in files.update([str(path)]).objects
    monkeypatch.setattr("varnish_gateway.standalone.files.reader.read_manifest", None)
    assert files.update([str(path)]).objects == {}


def test_unchanged_file_is_parsed_again_on_request(files, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("spec: [")
    assert files.update([str(path)]).complaints
    assert not files.update([str(path)]).complaints
    assert files.update([str(path)], again=True).complaints


def test_deleted_file_removes_its_objects(files, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(SERVICE % 80)
    files.update([str(path)])
    path.unlink()
    assert files.update([str(path)]).objects[TEA] is None
    assert files.update([str(path)]).objects == {}


def test_file_replaced_by_a_directory_counts_as_deleted(files, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(SERVICE % 80)
    files.update([str(path)])
    path.unlink()
    path.mkdir()
    assert files.update([str(path)]).objects[TEA] is None


def test_unreadable_file_keeps_its_objects(files, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(SERVICE % 80)
    files.update([str(path)])
    path.unlink()
    path.symlink_to(path)
    changes = files.update([str(path)])
    assert changes.objects == {}
    (complaint,) = map(str, changes.complaints)
    assert complaint == f"{path}:1: can't be read: Too many levels of symbolic links"
    path.unlink()
    path.write_text(SERVICE % 81)
    assert TEA in files.update([str(path)]).objects
