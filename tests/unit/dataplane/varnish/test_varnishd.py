from itertools import pairwise
from pathlib import Path

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.process.child import stop_leftover
from varnish_gateway.dataplane.process.sockets import Socket, parse_listen
from varnish_gateway.dataplane.process.workdir import Layout
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.dataplane.varnish.varnishd import Command, arguments, rejection

LAYOUT = Layout(
    work_dir=Path("/w"),
    secret_path=Path("/w/secret"),
    secret=b"s",
    vmod_dir=Path("/w/vmods"),
    vcl_dir=Path("/w/vcl"),
    varnish_dir=Path("/w/v"),
    ghost_config_path=Path("/w/ghost.json"),
    cdn_id="web.shop.varnish-gateway",
)


def test_unused_unix_socket_needs_no_restart():
    plain, behind = Socket("http-80", ":80"), Socket("https-443", "/w/https-443.sock", ("PROXY",))
    both = Command((plain, behind), ("-x",))
    assert both.covers(both)
    assert both.covers(Command((plain,), ("-x",)))
    assert not Command((plain,), ("-x",)).covers(both)
    assert not both.covers(Command((plain,), ()))
    assert not both.covers(Command((behind,), ("-x",)))


def test_the_command_line_has_no_vcl_and_the_users_words_last():
    settings = Settings(
        work_dir=Path("/w"),
        sockets=parse_listen("http-80=:80,http"),
        storage=("malloc,1m", "big=malloc,2m"),
    )
    argv = arguments(settings, LAYOUT, Command(settings.sockets.plain, ("-p", "default_ttl=1")), 6082, ("-p", "ours=1"))
    assert " ".join(argv) == (
        "varnishd -F -f  -M 127.0.0.1:6082 -S /w/secret -n /w/v"
        " -a ghost-reload=127.0.0.1:1969,http -a http-80=:80,http"
        " -s malloc,1m -s big=malloc,2m -p ours=1 -p default_ttl=1"
    )


@pytest.mark.parametrize(
    ("words", "stores"),
    [
        (("-s", "malloc,4g"), ["malloc,4g"]),
        (("-smalloc,4g", "-p", "default_ttl=1"), []),  # in one word with its option
        (("-s", "Transient=malloc,9m"), ["malloc,1m", "Transient=malloc,9m"]),
        (("-s", "Transient=malloc,9m", "-s", "disk=file,/d,1g"), ["Transient=malloc,9m", "disk=file,/d,1g"]),
        (("-p", "default_ttl=1"), ["malloc,1m"]),
    ],
)
def test_store_of_the_user_replaces_ours(words, stores):
    settings = Settings(work_dir=Path("/w"), sockets=parse_listen("http-80=:80,http"), storage=("malloc,1m",))
    argv = arguments(settings, LAYOUT, Command(settings.sockets.plain, words), 6082, ())
    assert [word for option, word in pairwise(argv) if option == "-s"] == stores


@pytest.mark.parametrize(("name", "identifier"), [("web", "web.shop.varnish-gateway"), ("", "varnish-gateway")])
def test_pods_of_a_gateway_have_one_identifier_for_cdn_loop(name, identifier):
    settings = Settings(work_dir=Path("/w"), sockets=parse_listen("a=:80"), gateway_name=name, namespace="shop")
    assert settings.cdn_id == identifier


async def test_a_pid_that_is_not_our_varnishd_is_left_alone(tmp_path):
    await stop_leftover("varnishd", tmp_path / "_.pid", str(tmp_path))
    (tmp_path / "_.pid").write_text("1\n")
    await stop_leftover("varnishd", tmp_path / "_.pid", str(tmp_path))
    assert (tmp_path / "_.pid").exists()


@pytest.fixture
def varnishd(tmp_path, monkeypatch):
    """Have a shell do what varnishd is asked for."""

    def does(script: str) -> None:
        program = tmp_path / "varnishd"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return does


async def test_rejected_arguments_carry_the_words_of_varnishd(varnishd):
    varnishd("echo 'Error: no such parameter' >&2; exit 2")
    assert str(await rejection(("-p", "a=b"))) == "varnishd rejects its extra arguments: no such parameter"
    varnishd("exit 0")
    assert await rejection(()) is None


async def test_killed_varnishd_rejects_nothing(varnishd):
    varnishd("kill -9 $$")
    with pytest.raises(errors.ChildExited, match="signal SIGKILL"):
        await rejection(())
