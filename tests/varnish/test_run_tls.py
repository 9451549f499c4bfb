"""``vgw run`` with HTTPS listeners: certificates from Secrets in files, followed as they change."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import pytest

from loopback import free_port
from support.directories import replace
from support.http import client as http_client
from support.manifests import route, service
from support.varnish.tls import Pair, certificate_of, pair, secure
from support.vgw_process import vgw_run
from support.waiting import until_async


def https_gateway(http: int, https: int) -> str:
    return f"""\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: cafe}}
spec:
  gatewayClassName: varnish
  listeners:
  - {{name: http, port: {http}, protocol: HTTP}}
  - name: https
    port: {https}
    protocol: HTTPS
    hostname: tea.example.com
    tls: {{certificateRefs: [{{name: tea}}]}}
"""


def secret(one: Pair) -> str:
    def block(text: bytes) -> str:
        return "".join(f"    {line}\n" for line in text.decode().splitlines())

    return f"""\
apiVersion: v1
kind: Secret
metadata: {{name: tea}}
type: kubernetes.io/tls
stringData:
  tls.crt: |
{block(one.certificate)}  tls.key: |
{block(one.key)}"""


async def until_certificate(port, one):
    async def served():
        with contextlib.suppress(OSError):
            return await certificate_of(port, "tea.example.com") == one.der
        return False

    await until_async(served, "the certificate serves")


async def until_routed(port, host):
    async def routed():
        return (await http_client.ask(port, host)).status == 200

    await until_async(routed, f"{host} is served")


async def test_edited_secret_changes_the_served_certificate(workdir, origins):
    http, https = free_port(), free_port()
    first, second = pair("tea.example.com"), pair("tea.example.com", 1)
    (workdir / "gateway.yaml").write_text(https_gateway(http, https))
    (workdir / "routes.yaml").write_text(
        "---\n".join([route("tea", "cafe", "tea.example.com", tea=1), service("tea", await origins.port("tea"))])
    )
    (workdir / "secret.yaml").write_text(secret(first))
    async with vgw_run(workdir) as gateway:
        await gateway.wait_for_programmed()
        where = secure(https, "tea.example.com")
        assert (await http_client.ask(where, "tea.example.com")).origin == "tea"
        assert await certificate_of(https, "tea.example.com") == first.der

        replace(workdir / "secret.yaml", secret(second))
        await until_certificate(https, second)
    logged = str(gateway.log)
    assert "PRIVATE" not in logged
    assert first.key.decode().splitlines()[1] not in logged


def keys_in(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1])
async def test_signal_that_stops_leaves_no_private_key_on_disk(workdir, number):
    conf, work, https = workdir / "conf", workdir / "work", free_port()
    conf.mkdir()
    (conf / "all.yaml").write_text(f"{https_gateway(free_port(), https)}---\n{secret(pair('tea.example.com'))}")
    async with vgw_run(conf, options=("--work-dir", str(work))) as gateway:
        await gateway.wait_for_programmed()
        await until_certificate(https, pair("tea.example.com"))
        assert keys_in(work)
        assert await gateway.stop(number) == 0
    assert keys_in(work) == []


async def test_hangup_reads_all_files_again_and_keeps_serving(workdir):
    conf, https = workdir / "conf", free_port()
    conf.mkdir()
    (conf / "all.yaml").write_text(f"{https_gateway(free_port(), https)}---\n{secret(pair('tea.example.com'))}")
    (conf / "broken.yaml").write_text("spec: [\n")
    async with vgw_run(conf) as gateway:
        await gateway.wait_for_programmed()
        since = len(gateway.log)
        gateway.process.send_signal(signal.SIGHUP)
        await gateway.wait_for_record(lambda record: "broken.yaml:1" in record["message"], since=since)
        await until_certificate(https, pair("tea.example.com"))
        assert gateway.process.returncode is None


BAD_EDITS = {
    "truncated tls.crt": lambda path, one: replace(path, secret(Pair(one.certificate[:-90], one.key))),
    "key of another": lambda path, one: replace(path, secret(Pair(one.certificate, pair("tea.example.com", 1).key))),
    "type Opaque": lambda path, one: replace(path, secret(one).replace("kubernetes.io/tls", "Opaque")),
    "file removed": lambda path, _: path.unlink(),
}


@pytest.mark.parametrize("edit", BAD_EDITS.values(), ids=BAD_EDITS.keys())
async def test_bad_edit_of_a_certificate_leaves_the_port_open(workdir, origins, edit):
    http, https, health = free_port(), free_port(), free_port()
    first, second = pair("tea.example.com"), pair("tea.example.com", 2)
    (workdir / "gateway.yaml").write_text(https_gateway(http, https))
    (workdir / "routes.yaml").write_text(
        "---\n".join([route("tea", "cafe", "tea.example.com", tea=1), service("tea", await origins.port("tea"))])
    )
    (workdir / "secret.yaml").write_text(secret(first))
    async with vgw_run(workdir, options=("--health-addr", f"127.0.0.1:{health}")) as gateway:
        await gateway.wait_for_programmed()
        since = len(gateway.log)
        edit(workdir / "secret.yaml", first)
        await gateway.wait_for_record(lambda record: "InvalidCertificateRef" in record["message"], since=since)
        # Changes are applied one after another: when this one serves, the edit has had its effect.
        replace(workdir / "more.yaml", route("more", "cafe", "more.example.com", tea=1))
        await until_routed(http, "more.example.com")
        assert await certificate_of(https, "tea.example.com") == first.der
        assert (await http_client.ask(secure(https, "tea.example.com"), "tea.example.com")).origin == "tea"
        ready = await http_client.ask(health, "gateway", "/ready")
        assert ready.status == 200
        assert "InvalidCertificateRef" in ready.body.decode()
        (workdir / "secret.yaml").write_text(secret(second))
        await until_certificate(https, second)


async def test_translate_output_contains_no_private_key(workdir):
    (workdir / "all.yaml").write_text("---\n".join([https_gateway(80, 443), secret(pair("tea.example.com"))]))
    shown = await _translate(workdir)
    assert "- port: 443" in shown
    assert "PRIVATE" not in shown


async def _translate(path: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "varnish_gateway", "translate", str(path)), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return output.decode()
