"""A gateway that is killed by force leaves nothing behind."""

import asyncio
import os
import signal
from pathlib import Path

from varnish.running import free_port, running

GATEWAY = """\
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: gateway}}
spec:
  gatewayClassName: varnish
  listeners: [{{name: http, protocol: HTTP, port: {port}}}]
"""


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid for child in map(int, children) for pid in (child, *descendants(child))]


async def test_varnishd_ends_with_a_killed_gateway(tmp_path):
    (tmp_path / "gateway.yaml").write_text(GATEWAY.format(port=free_port()))
    async with running(tmp_path) as gateway:
        await gateway.programmed()
        left = descendants(gateway.process.pid)
        assert len(left) >= 3, "varnishd's manager, its worker and the lifeline"
        os.kill(gateway.process.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            while any(Path(f"/proc/{pid}").exists() for pid in left):
                await asyncio.sleep(0.02)  # their end can only be looked for
