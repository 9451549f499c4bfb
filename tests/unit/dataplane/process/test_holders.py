"""Which process listens on a port."""

import os
import socket
from pathlib import Path

import pytest

from varnish_gateway import errors
from varnish_gateway.dataplane.process import holders
from varnish_gateway.dataplane.process.holders import ListeningSocket, holder, listening
from varnish_gateway.dataplane.process.ports import first_in_use, first_taken
from varnish_gateway.dataplane.process.sockets import Socket

ROWS = (
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 4711 1 0 100 0 0 10 0",
    "   1: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000    33        0 4712 1 0 20 4 30 10 -1",
)


@pytest.fixture(params=["127.0.0.1", "::1"])
def occupied(request):
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as server:
        yield server.getsockname()[1]


def test_only_listening_sockets_are_found():
    assert list(listening(ROWS)) == [ListeningSocket(port=8080, user=33, inode=4711)]


def test_process_that_holds_the_port_is_named(occupied):
    comm = Path("/proc/self/comm").read_text().strip()
    assert holder(occupied) == f" by process {os.getpid()} ({comm})"


def test_user_is_named_where_the_process_is_not_visible(occupied, monkeypatch, tmp_path):
    monkeypatch.setattr(holders, "PROC", tmp_path)
    assert holder(occupied) == f" by a process of user {os.geteuid()}"


def test_free_port_has_no_holder():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        assert holder(server.getsockname()[1]) == ""


def test_taken_port_is_reported_with_the_process_that_has_it():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ours = Socket("http-1", f"127.0.0.1:{port}")
        for fault in (first_taken([ours]), first_in_use([ours])):
            assert isinstance(fault, errors.ChildExited)
            start = f"socket http-1 on 127.0.0.1:{port}: Address already in use by process {os.getpid()} ("
            assert str(fault).startswith(start)


def test_port_that_only_varnishd_may_bind_is_left_to_varnishd():
    """It may have the capability that we lack."""
    foreign = Socket("http-1", "192.0.2.1:80")
    assert first_taken([foreign]) is not None
    assert first_in_use([foreign]) is None
