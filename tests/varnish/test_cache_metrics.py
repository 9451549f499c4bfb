"""The metrics of the cache on the page of ``vgw run``."""

from loopback import free_port
from support import manifests
from support.http.client import ask
from support.manifests import service
from support.vgw_process import vgw_run
from support.waiting import until_async

HOST = "cafe.example.com"
POLICY = """\
apiVersion: gateway.varnish-software.com/v1alpha1
kind: VarnishCachePolicy
metadata: {name: pages}
spec: {targetRef: {kind: HTTPRoute, name: cafe}, defaultTTL: 1h}
"""
LIMIT = manifests.USER_VCL_CLASS.partition("  userVCL")[0] + "  metrics: {cachedRoutes: 0}\n"


async def test_metrics_of_the_cache_follow_the_limit_of_the_class(workdir, origins):
    conf, port, health = workdir / "conf", free_port(), free_port()
    conf.mkdir()
    (conf / "gateway.yaml").write_text(manifests.gateway("cafe", port))
    (conf / "route.yaml").write_text(manifests.route("cafe", "cafe", HOST, tea=1))
    (conf / "tea.yaml").write_text(service("tea", await origins.port("tea")))
    (conf / "policy.yaml").write_text(POLICY)

    async def has(*lines: str) -> bool:
        found = (await ask(health, HOST, "/metrics")).body.decode().splitlines()
        return set(lines) <= set(found)

    def requests(result: str, count: int) -> str:
        labels = f'gateway="default/cafe",route="default/cafe",policy="default/pages",result="{result}"'
        return f"vgw_route_cache_requests_total{{{labels}}} {count}"

    def dropped(count: int) -> str:
        return f'vgw_route_cache_dropped_total{{gateway="default/cafe"}} {count}'

    async with vgw_run(conf, options=("--health-addr", f"127.0.0.1:{health}")) as run:
        await run.wait_for_programmed()
        for _ in range(3):
            assert (await ask(port, HOST)).answered_by == "tea"
        await until_async(lambda: has(requests("miss", 1), requests("hit", 2), dropped(0)), "the metrics")
        (conf / "class.yaml").write_text(LIMIT)
        await until_async(lambda: has(dropped(1)), "the limit")
        assert not await has(requests("hit", 2))
        (conf / "class.yaml").unlink()
        await until_async(lambda: has(requests("miss", 1), requests("hit", 2), dropped(1)), "the metrics, once more")
