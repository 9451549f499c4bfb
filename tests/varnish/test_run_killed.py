"""A gateway that is killed by force leaves nothing behind."""

import signal
from pathlib import Path

from loopback import free_port
from support.manifests import gateway
from support.processes import descendants
from support.vgw_process import vgw_run
from support.waiting import until_async


async def test_killed_gateway_terminates_its_varnishd(workdir):
    (workdir / "gateway.yaml").write_text(gateway("gateway", free_port()))
    async with vgw_run(workdir / "gateway.yaml", options=("--work-dir", str(workdir / "work"))) as killed:
        await killed.wait_for_programmed()
        left = descendants(killed.process.pid)
        assert len(left) >= 3, "varnishd's manager, its worker and the lifeline"
        killed.process.send_signal(signal.SIGKILL)
        await until_async(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), "they end")
