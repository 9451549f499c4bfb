"""What of a supervisor needs no varnishd."""

import asyncio

import pytest

from varnish_gateway.chaperone import events
from varnish_gateway.chaperone.settings import Settings
from varnish_gateway.chaperone.sockets import parse_listen
from varnish_gateway.chaperone.supervisor import Supervisor
from varnish_gateway.chaperone.varnishadm import Admin
from varnish_gateway.chaperone.varnishadm.answers import ListenAddress
from varnish_gateway.chaperone.workdir import prepare


@pytest.fixture
async def supervisor(tmp_path, monkeypatch):
    monkeypatch.setattr("varnish_gateway.chaperone.workdir.check_enterable", lambda *_: None)
    settings = Settings(work_dir=tmp_path, sockets=parse_listen("ghost-reload=127.0.0.1:0,http"))
    return Supervisor(settings, prepare(settings), Admin(b""), events.Bus(), asyncio.Event().set)


async def test_the_reload_port_is_known_once_a_worker_has_told(supervisor):
    with pytest.raises(ConnectionError):
        _ = supervisor.reload_port
    supervisor.addresses = (ListenAddress("http-80", "0.0.0.0", 80), ListenAddress("ghost-reload", "127.0.0.1", 7))
    assert supervisor.reload_port == 7
