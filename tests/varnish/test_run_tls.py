"""``vgw run`` with HTTPS listeners: certificates from Secrets in files, followed as they change."""

import asyncio
import contextlib
import sys
from pathlib import Path

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
        # A key that does not fit: the condition names it, and plain listeners go on.
        since = len(gateway.log)
        replace(workdir / "secret.yaml", secret(Pair(first.certificate, second.key)))
        await gateway.wait_for_record(lambda record: "InvalidCertificateRef" in record["message"], since=since)
        assert (await http_client.ask(http, "tea.example.com")).origin == "tea"
        replace(workdir / "secret.yaml", secret(first))
        await until_certificate(https, first)
    logged = str(gateway.log)
    assert "PRIVATE" not in logged
    assert first.key.decode().splitlines()[1] not in logged


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
