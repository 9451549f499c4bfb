"""``vgw chaperone`` from plain files, as a process of its own."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from loopback import free_port
from support.directories import replace
from support.http import client as http_client
from support.http.client import Answer
from support.processes import descendants, program
from support.varnish.caching import policy
from support.varnish.dataplane import ask, slice_document, until_answer, until_header
from support.varnish.tls import certificate_of, pair, secure
from support.waiting import until_async
from varnish_gateway.emit.vcl import main_vcl
from varnish_gateway.ir import wire

SOURCE = Path(__file__).resolve().parents[2] / "src"
PROGRAM = """
import asyncio, logging, os, sys
from varnish_gateway.chaperone.run import run_chaperone
from varnish_gateway.dataplane.settings import from_environment
logging.basicConfig(level="INFO", stream=sys.stderr)
sys.exit(asyncio.run(run_chaperone(from_environment(os.environ))))
"""


class Chaperone:
    """The seed's example: every path and port of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.health = free_port(), free_port()
        self.environment = {
            "NAMESPACE": "n",
            "VARNISH_ADMIN_PORT": "0",
            "VARNISH_LISTEN": f"ghost-reload=127.0.0.1:0,http;http-1=127.0.0.1:{self.port},http",
            "VARNISH_STORAGE": "malloc,16m",
            "VCL_PATH": str(directory / "main.vcl"),
            "ROUTING_CONFIG_PATH": str(directory / "routing.json"),
            "GHOST_CONFIG_PATH": str(directory / "ghost.json"),
            "ENDPOINTS_PATH": str(directory / "endpoints"),
            "WORK_DIR": str(directory / "work"),
            "HEALTH_ADDR": f"127.0.0.1:{self.health}",
            "VARNISHD_EXTRA_ARGS": "-p;thread_pool_stack=160k",
            "DRAIN_SECONDS": "0.5",
        }

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            PROGRAM,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **self.environment},
        )

    async def stop(self) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 15)

    def write(self, name: str, content: str) -> None:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        replace(path, content)

    def write_endpoints(self, service: str, port: int) -> None:
        self.write(f"endpoints/{service}.yaml", yaml.safe_dump(slice_document(service, port)))

    async def get(self, path: str) -> Answer:
        return await http_client.ask(self.health, "localhost", path)

    async def until_ready(self, status: int = 200) -> dict[str, object]:
        """Wait for this answer to /ready; return what it says."""

        async def reported() -> dict[str, object] | None:
            answer = await self.get("/ready")
            return answer.json if answer.status == status else None

        return await until_async(reported, f"/ready is {status}")


@pytest.fixture
async def chaperone(workdir):
    chaperone = Chaperone(workdir)
    chaperone.write("main.vcl", main_vcl())
    yield chaperone
    if chaperone.process.returncode is None:
        await chaperone.stop()


def routing(*services):
    vhosts = {name: {"service": name, "namespace": "n", "port": 8080, "weight": 100} for name in services}
    return json.dumps({"version": 1, "vhosts": vhosts})


async def test_version_1_files_serve_and_edits_are_applied(chaperone, origins):
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    await chaperone.until_ready()
    assert (await ask(chaperone.port)).origin == "tea"

    chaperone.write("routing.json", routing("tea", "coffee"))
    await until_answer(chaperone.port, 503, "coffee")
    chaperone.write_endpoints("coffee", await origins.port("coffee"))
    await until_answer(chaperone.port, 200, "coffee")

    chaperone.write("main.vcl", main_vcl().replace("ghost.deliver();", 'ghost.deliver(); set resp.http.Says = "two";'))
    await until_header(chaperone.port, "says", "two")

    chaperone.write("routing.json", "{half")
    chaperone.write("main.vcl", "nonsense")
    chaperone.write_endpoints("tea", await origins.port("other"))
    await until_header(chaperone.port, "echo-service", "other")
    assert (await ask(chaperone.port, "coffee")).header("says") == "two"
    assert await chaperone.stop() == 0


async def test_health_ready_and_metrics_pages_reflect_serving_and_draining(chaperone, origins):
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    served = await chaperone.until_ready()
    assert served["upToDate"]
    manifest = json.loads((chaperone.directory / "work" / "ghost" / "ghost.json").read_text())
    assert served["configuration"] == manifest["id"]
    assert f"http-1=127.0.0.1:{chaperone.port}" in served["sockets"]
    health = await chaperone.get("/health")
    assert (health.status, health.body) == (200, b"ok\n")
    await ask(chaperone.port)
    metrics = (await chaperone.get("/metrics")).body.decode()
    assert 'vgw_route_requests_total{route="n/tea"} 1' in metrics
    assert "vgw_ready 1" in metrics
    assert (await chaperone.get("/drain")).status == 503
    assert (await chaperone.get("/ready")).status == 503
    assert (await ask(chaperone.port)).status == 200


async def test_metrics_have_the_busiest_cached_routes_up_to_the_limit(chaperone, origins):
    rule = wire.Rule(backends=(wire.Backend(service="n/tea", port=8080),), cache=policy())
    routes = tuple(
        wire.Route(
            namespace="n",
            name=name,
            attachments=(wire.Attachment(listener="http", hostnames=(name,)),),
            rules=(rule,),
        )
        for name in ("busy", "quiet")
    )
    shard = wire.Routing(version=2, listeners=(wire.Listener(name="http", socket="*"),), routes=routes)
    chaperone.environment["METRICS_CACHED_ROUTES"] = "1"
    chaperone.write("routing.json", msgspec.json.encode(shard).decode())
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    await chaperone.until_ready()
    for host in ("quiet", "busy", "busy"):
        assert (await ask(chaperone.port, host)).status == 200
    metrics = (await chaperone.get("/metrics")).body.decode()
    labels = 'route="n/busy",policy="default/pages"'
    assert f'vgw_route_cache_requests_total{{{labels},result="hit"}} 1' in metrics
    assert f"vgw_route_cache_stored_total{{{labels}}} 1" in metrics
    assert "vgw_route_cache_dropped_total 1" in metrics
    assert 'vgw_route_requests_total{route="n/quiet"} 1' in metrics
    assert not re.search(r'vgw_route_cache.*"n/quiet"', metrics)


async def test_hand_written_ghost_json_is_served_and_watched(chaperone, origins):
    def vhost(port):
        return json.dumps(
            {"version": 1, "vhosts": {"tea": {"backends": [{"address": "127.0.0.1", "port": port, "weight": 100}]}}}
        )

    first = vhost(await origins.port("tea"))
    chaperone.write("ghost.json", first)
    await chaperone.start()
    await chaperone.until_ready()
    assert (await ask(chaperone.port)).origin == "tea"
    assert (chaperone.directory / "ghost.json").read_text() == first
    chaperone.write("ghost.json", vhost(await origins.port("other")))
    await until_header(chaperone.port, "echo-service", "other")
    chaperone.write("ghost.json", "{half")
    chaperone.write("ghost.json", '{"version": 1, "vhosts": 7}')
    assert (await ask(chaperone.port)).origin == "other"


async def test_missing_vcl_file_is_awaited(chaperone, origins):
    vcl = chaperone.directory / "main.vcl"
    text = vcl.read_text()
    vcl.unlink()
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    assert (await chaperone.until_ready(503))["reason"] == "no VCL is in use"
    chaperone.write("main.vcl", text)
    await chaperone.until_ready()
    assert (await ask(chaperone.port)).status == 200


async def test_occupied_port_exits_with_status_1(chaperone, origins):
    chaperone.environment["VARNISH_LISTEN"] = f"http-1=127.0.0.1:{await origins.port('squatter')},http"
    await chaperone.start()
    assert await asyncio.wait_for(chaperone.process.wait(), 15) == 1


async def test_varnishd_of_a_killed_chaperone_is_terminated(chaperone, origins):
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    await chaperone.until_ready()
    chaperone.process.kill()
    await chaperone.process.wait()
    await chaperone.start()
    await chaperone.until_ready()
    assert (await ask(chaperone.port)).status == 200


async def test_second_chaperone_on_a_work_directory_exits_and_leaves_the_first_alone(chaperone, origins):
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    await chaperone.until_ready()
    secret = (chaperone.directory / "work" / "secret").read_bytes()
    second = Chaperone(chaperone.directory)
    await second.start()
    assert await asyncio.wait_for(second.process.wait(), 15) != 0
    assert (chaperone.directory / "work" / "secret").read_bytes() == secret
    assert (await ask(chaperone.port)).status == 200


async def test_hangup_leaves_the_chaperone_serving(chaperone, origins):
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    await chaperone.until_ready()
    chaperone.process.send_signal(signal.SIGHUP)
    chaperone.write_endpoints("tea", await origins.port("other"))
    await until_header(chaperone.port, "echo-service", "other")
    assert await chaperone.stop() == 0


def tls_document(port, **certificates):
    listed = [{"file": file.replace("_", "."), "names": [name]} for file, name in certificates.items()]
    return json.dumps({"version": 2, "ports": [{"port": port, "certificates": listed}]})


async def test_edited_certificate_files_are_served_and_haproxy_terminates_with_the_chaperone(chaperone, origins):
    port = free_port()
    chaperone.environment["VARNISH_LISTEN"] += f";https-{port}=127.0.0.1:{port},https"
    chaperone.environment["TLS_CERT_DIR"] = str(chaperone.directory / "tls")
    chaperone.write("routing.json", routing("tea"))
    chaperone.write_endpoints("tea", await origins.port("tea"))
    await chaperone.start()
    await chaperone.until_ready()

    chaperone.write("tls/tea.pem", pair("tea").content.decode())
    chaperone.write("tls/tls.json", tls_document(port, tea_pem="tea"))
    await until_certificate(port, pair("tea"))
    assert (await http_client.ask(secure(port), "tea")).origin == "tea"
    chaperone.write("tls/tls.json", "{half")
    chaperone.write("tls/tea.pem", pair("tea", 1).content.decode())
    chaperone.write("tls/tls.json", tls_document(port, tea_pem="tea"))
    await until_certificate(port, pair("tea", 1))

    left = descendants(chaperone.process.pid)
    assert [program(pid) for pid in left].count("haproxy") == 2
    chaperone.process.kill()
    await chaperone.process.wait()
    await until_async(lambda: not any(is_running(pid) for pid in left), "all end")


async def until_certificate(port, one):
    async def served():
        with contextlib.suppress(OSError):
            return await certificate_of(port, "tea") == one.der
        return False

    await until_async(served, "the certificate serves")


def is_running(pid):
    with contextlib.suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False
