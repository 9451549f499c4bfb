from pathlib import Path

import msgspec
import pytest

from varnish_gateway.dataplane.process.sockets import parse_listen
from varnish_gateway.dataplane.process.workdir import prepare
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.fence import fence_of
from varnish_gateway.ir.pod import TOKEN, WORK


@pytest.fixture
def layout(tmp_path, monkeypatch):
    monkeypatch.setattr("varnish_gateway.dataplane.process.workdir.check_enterable", lambda *_: None)
    settings = Settings(
        work_dir=tmp_path / "w", sockets=parse_listen(""), ghost_config_path=tmp_path / "w" / "ghost.json"
    )
    layout = prepare(settings)
    for directory in ("tls", "last"):
        (layout.work_dir / directory).mkdir()
    return layout


def opens(paths, path):
    return any(Path(path).is_relative_to(each) for each in paths)


def test_directories_with_keys_are_never_open(layout):
    fence = fence_of(layout, [layout.work_dir, Path("/")], [], ["-p", f"vcl_path={layout.work_dir}"])
    for key in (layout.work_dir / "tls" / "x.pem", layout.work_dir / "last" / "x.pem"):
        assert not opens(fence.readable, key)
        assert not opens(fence.writable, key)
    assert not opens(fence.readable, Path(TOKEN.path).resolve())


def test_ghost_reads_in_a_directory_of_its_own(layout):
    assert layout.ghost_config_path == layout.work_dir / "ghost" / "ghost.json"
    assert opens(fence_of(layout, [], [], []).readable, layout.ghost_config_path)


def test_entries_beside_directories_with_keys_are_open(layout):
    (layout.work_dir / "mine.vcl").touch()
    assert opens(fence_of(layout, [layout.work_dir], [], []).readable, layout.work_dir / "mine.vcl")


def test_directory_of_certificates_is_private(tmp_path, layout):
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    layout = msgspec.structs.replace(layout, tls_cert_dir=certificates)
    assert not opens(fence_of(layout, [tmp_path], [], []).readable, certificates / "tls.key")


def test_file_of_tokens_is_private_also_if_it_comes_later(tmp_path, layout):
    (tmp_path / "mine.vcl").touch()
    layout = msgspec.structs.replace(layout, invalidation_tokens=tmp_path / "tokens.json")
    for _ in range(2):
        readable = fence_of(layout, [tmp_path], [], []).readable
        assert not opens(readable, tmp_path / "tokens.json")
        assert opens(readable, tmp_path / "mine.vcl")
        (tmp_path / "tokens.json").touch()


@pytest.mark.parametrize("words", [("-s", "disk=file,{},1g"), ("-sfile,{}",), ("-s", "file,{},1g")])
def test_directory_of_a_file_store_is_writable(layout, tmp_path, words):
    store = tmp_path / "stores" / "store.bin"
    argv = [word.format(store) for word in words]
    assert str(store.parent) in fence_of(layout, [], [], argv).writable


@pytest.mark.parametrize("words", [("-I", "{}"), ("-I{}",), ("-p", "vmod_path=/x:{}"), ("-p", "vcl_path={}:/x")])
def test_paths_that_arguments_name_are_readable(layout, tmp_path, words):
    argv = [word.format(tmp_path / "named") for word in words]
    assert opens(fence_of(layout, [], [], argv).readable, tmp_path / "named")


def test_paths_of_the_variable_are_readable(layout, tmp_path, monkeypatch):
    assert not opens(fence_of(layout, [], [], []).readable, tmp_path / "data")
    monkeypatch.setenv("VARNISHD_READABLE", f"relative:{tmp_path / 'data'}:/other")
    readable = fence_of(layout, [], [], []).readable
    assert opens(readable, tmp_path / "data")
    assert "/other" in readable
    assert "relative" not in readable


def test_sockets_can_be_made_where_they_belong(layout):
    fence = fence_of(layout, [], [layout.work_dir / "https-443.sock"], [])
    assert fence.sockets == (str(layout.work_dir),)
    assert not opens(fence.writable, layout.work_dir / "https-443.sock")


MOUNTED = """\
1 0 0:30 / / rw - overlay overlay rw
2 1 0:31 / /proc rw - proc proc rw
3 1 0:32 / /dev/shm rw - tmpfs tmpfs rw
4 1 8:1 /pods/a /var/run/varnish rw - tmpfs tmpfs rw
5 1 8:1 /pods/t /run/secrets/kubernetes.io/serviceaccount rw - tmpfs tmpfs rw
6 1 8:1 /pods/g /usr/share/geo ro - ext4 /dev/sda rw
7 1 8:1 /pods/s /with\\040space ro - ext4 /dev/sda rw
8 1 8:1 /pods/c /run/secrets/cloud.example/serviceaccount rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"CONFIGMAP_NAME": "web-vcl"}, True),
        ({"CONFIGMAP_NAME": "web-vcl", "VARNISHD_READABLE": "none"}, False),
        ({}, False),
    ],
    ids=["pod of an earlier operator", "pod of this operator", "no pod"],
)
def test_mounts_of_users_are_open_where_an_earlier_operator_does_not_name_them(
    layout, monkeypatch, tmp_path, variables, expected
):
    for name in ("CONFIGMAP_NAME", "VARNISHD_READABLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTED)
    monkeypatch.setattr("varnish_gateway.dataplane.varnish.fence.MOUNTS", mounts)
    readable = fence_of(layout, [], [], []).readable
    assert ("/with space" in readable) is expected
    assert not opens(readable, Path(WORK.path).resolve())
    assert "/" not in readable
    assert not opens(readable, Path(TOKEN.path).resolve())
    assert not opens(readable, Path("/run/secrets/cloud.example/serviceaccount/token"))
