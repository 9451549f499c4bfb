import asyncio
import contextlib
import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from varnish_gateway.chaperone.feeds.files import FileFeed, SliceFiles
from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.runtime.inotify import bursts, directories

ROUTING = {"version": 1, "vhosts": {"a.example.com": {"service": "a", "port": 80}}}
SLICE = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s, namespace: default, labels: {kubernetes.io/service-name: a}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1]}]
"""


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "endpoints").mkdir()
    return Settings(
        work_dir=tmp_path / "work",
        sockets=parse_listen(""),
        vcl_path=tmp_path / "main.vcl",
        routing_path=tmp_path / "routing.json",
        ghost_config_path=tmp_path / "ghost.json",
        endpoints_path=tmp_path / "endpoints",
    )


def names(change):
    return {key.name: piece is not None for key, piece in change.slices.items()}


def test_only_changes_are_read(settings, tmp_path):
    (tmp_path / "main.vcl").write_text("vcl 4.1;")
    (tmp_path / "routing.json").write_text(json.dumps(ROUTING))
    files = FileFeed(settings)
    first = files.read()
    assert first.vcl == "vcl 4.1;"
    assert list(first.routing) == [0]
    second = files.read()
    assert (second.vcl, second.routing, second.slices, second.bundle) == (None, {}, {}, None)


async def test_forgotten_files_are_read_again_though_they_seem_unchanged(settings, tmp_path):
    path = tmp_path / "main.vcl"
    path.write_text("vcl 4.0;")
    files, before = FileFeed(settings), path.stat()
    files.read()
    path.write_text("vcl 4.1;")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files.read().vcl is None
    files.forget()
    reading = bursts(lambda: [path], files.forgotten)
    async with contextlib.aclosing(reading):
        await anext(reading)
        files.forget()
        await asyncio.wait_for(anext(reading), 5)
    assert files.read().vcl == "vcl 4.1;"


def test_a_file_written_by_rename_is_read(settings, tmp_path):
    (tmp_path / "main.vcl").write_text("one")
    files = FileFeed(settings)
    files.read()
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").rename(tmp_path / "main.vcl")
    assert files.read().vcl == "two"


def test_half_written_file_keeps_its_last_good_content(settings, tmp_path, caplog):
    routing = tmp_path / "routing.json"
    routing.write_text(json.dumps(ROUTING))
    files = FileFeed(settings)
    files.read()
    routing.write_text(json.dumps(ROUTING)[:-5])
    assert files.read().routing == {}
    assert "routing.json: " in caplog.text
    routing.write_text(json.dumps({"version": 1}))
    assert list(files.read().routing) == [0]


@pytest.mark.parametrize("name", ["routing.json", "ghost.json", "tls/tls.json", "endpoints/a.yaml"])
def test_file_without_utf_8_changes_nothing(settings, tmp_path, caplog, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes('{"version": 2, "é": 1}'.encode("latin-1"))
    change = FileFeed(msgspec.structs.replace(settings, tls_cert_dir=tmp_path / "tls")).read()
    assert (change.routing, change.bundle, change.tls, change.slices) == ({}, None, None, {})
    assert "utf-8" in caplog.text.lower()
    assert "the last good content stays" in caplog.text


def test_endpoint_slices_come_move_and_go(settings, tmp_path):
    one, two = tmp_path / "endpoints" / "1.yaml", tmp_path / "endpoints" / "2.yml"
    one.write_text(SLICE % "x" + "---" + SLICE % "y")
    files = FileFeed(settings)
    assert names(files.read()) == {"x": True, "y": True}
    one.write_text(SLICE % "x")
    assert names(files.read()) == {"x": True, "y": False}
    two.write_text(SLICE % "x")
    one.unlink()
    assert names(files.read()) == {"x": True}
    two.unlink()
    assert names(files.read()) == {"x": False}


def addresses(change):
    return {
        key.name: piece and [address for each in piece.endpoints for address in each.addresses]
        for key, piece in change.slices.items()
    }


def test_a_slice_that_two_files_define_stays_while_one_of_them_does(settings, tmp_path):
    one, two = tmp_path / "endpoints" / "1.yaml", tmp_path / "endpoints" / "2.yaml"
    one.write_text(SLICE % "x")
    two.write_text((SLICE % "x").replace("10.0.0.1", "10.0.0.2"))
    files = FileFeed(settings)
    assert addresses(files.read()) == {"x": ["10.0.0.2"]}, "the last file by path counts"
    one.write_text((SLICE % "x").replace("10.0.0.1", "10.0.0.33"))
    assert addresses(files.read()) == {"x": ["10.0.0.2"]}, "as for one that starts now"
    two.write_text(SLICE % "y")
    assert addresses(files.read()) == {"x": ["10.0.0.33"], "y": ["10.0.0.1"]}
    two.write_text(SLICE % "x")
    one.unlink()
    assert addresses(files.read()) == {"x": ["10.0.0.1"], "y": None}
    two.unlink()
    assert addresses(files.read()) == {"x": None}


FILES = st.sampled_from(["1.yaml", "2.yaml", "3.yaml"])
CONTENTS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3))


@given(st.lists(st.tuples(FILES, CONTENTS), max_size=8))
def test_slices_equal_those_of_a_fresh_start(history):
    slices, contents, reported = SliceFiles(), {}, {}
    for name, content in history:
        contents[name] = content
        reported |= {key: slices.get(key) for key in slices.replace(Path(name), content)}
        rebuilt = {key: value for _, content in sorted(contents.items()) for key, value in content.items()}
        assert {key: value for key, value in reported.items() if value is not None} == rebuilt


def test_hidden_manifests_are_passed_over(settings, tmp_path):
    """A mounted ConfigMap has each of its files twice: as a link, and in the hidden directory where that leads."""
    mount = tmp_path / "endpoints"
    (mount / "..v1").mkdir()
    (mount / "..v1" / "x.yaml").write_text(SLICE % "x")
    (mount / "..data").symlink_to("..v1")
    (mount / ".y.yaml").write_text(SLICE % "y")
    files = FileFeed(settings)
    assert names(files.read()) == {}
    (mount / "x.yaml").symlink_to("..data/x.yaml")
    assert names(files.read()) == {"x": True}


def test_directory_that_vanishes_while_it_is_listed_is_skipped(settings, tmp_path, monkeypatch):
    """A mounted ConfigMap removes its old directory while we look."""
    scandir = os.scandir

    def vanish(directory):
        if os.fspath(directory).endswith("old"):
            raise FileNotFoundError(directory)
        return scandir(directory)

    for name in ("old", "new"):
        (tmp_path / "endpoints" / name).mkdir()
    (tmp_path / "endpoints" / "new" / "x.yaml").write_text(SLICE % "x")
    monkeypatch.setattr(os, "scandir", vanish)
    files = FileFeed(settings)
    assert tmp_path / "endpoints" / "new" in directories(files.paths)
    assert names(files.read()) == {"x": True}


def test_bad_manifest_keeps_its_own_last_good_content(settings, tmp_path, caplog):
    one, two = tmp_path / "endpoints" / "1.yaml", tmp_path / "endpoints" / "2.yaml"
    one.write_text(SLICE % "x")
    files = FileFeed(settings)
    files.read()
    one.write_text("a: [")
    two.write_text(SLICE % "y")
    assert names(files.read()) == {"y": True}
    assert "1.yaml" in caplog.text


def test_without_routing_a_hand_written_ghost_json_is_used(settings, tmp_path):
    ghost = tmp_path / "ghost.json"
    ghost.write_text('{"version": 1, "vhosts": {}}')
    files = FileFeed(settings)
    assert files.by_hand
    assert files.read().bundle.manifest == ghost.read_bytes()
    ghost.write_text("{")
    assert files.read().bundle is None


def test_with_routing_ghost_json_is_ours(settings, tmp_path):
    (tmp_path / "ghost.json").write_text('{"version": 1, "vhosts": {}}')
    (tmp_path / "routing.json").write_text(json.dumps(ROUTING))
    assert not FileFeed(settings).by_hand


def test_directories_to_watch(tmp_path):
    (tmp_path / "d" / "e").mkdir(parents=True)
    assert directories([tmp_path / "d", tmp_path / "no" / "such" / "file"]) == {
        tmp_path,
        tmp_path / "d",
        tmp_path / "d" / "e",
    }


def test_certificates_are_read_from_their_directory_each_time(settings, tmp_path, caplog):
    place = tmp_path / "tls"
    settings = msgspec.structs.replace(settings, tls_cert_dir=place)
    files = FileFeed(settings)
    assert files.read().tls is None
    place.mkdir()
    ports = [{"port": 443, "certificates": [{"file": "tea.pem", "names": ["tea"]}]}]
    (place / "tls.json").write_text(json.dumps({"version": 2, "ports": ports}))
    assert files.read().tls is None
    assert "tea.pem" in caplog.text
    (place / "tea.pem").write_bytes(b"one")
    assert files.read().tls.files == {"tea.pem": b"one"}
    (place / "tea.pem").write_bytes(b"two")
    assert files.read().tls.files == {"tea.pem": b"two"}
    assert files.read().tls is None, "what did not change is not handed over: who does waits for HAProxy"
    (place / "tea.pem").write_bytes(b"one")
    assert files.read().tls.files == {"tea.pem": b"one"}
    assert place in files.paths
