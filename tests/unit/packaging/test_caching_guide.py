"""The policies of docs/guides/caching.md and cms.md are valid and do what the pages say."""

import re
from pathlib import Path

import yaml

from support.builders.objects import document
from varnish_gateway.standalone.translation import translate_files

GUIDES = Path(__file__).parents[3] / "docs" / "guides"
RULES = [
    {"name": name, "matches": [{"path": {"value": f"/{name}"}}], "backendRefs": [{"name": "shop", "port": 80}]}
    for name in ("assets", "basket", "news")
]
SITE = [
    document(
        "Gateway",
        "shop",
        "shop",
        spec={"gatewayClassName": "varnish", "listeners": [{"name": "web", "port": 80, "protocol": "HTTP"}]},
    ),
    document("HTTPRoute", "shop", "shop", spec={"parentRefs": [{"name": "shop"}], "rules": RULES}),
    document("Service", "shop", "shop", group="", spec={"ports": [{"port": 80}]}),
]


def documents(guide: str) -> list[dict]:
    blocks = re.findall(r"^```yaml\n(.*?)^```", (GUIDES / guide).read_text(), re.MULTILINE | re.DOTALL)
    return [yaml.safe_load(text) for text in blocks]


def test_manifests_of_the_guide_for_cms_are_accepted_and_in_force(tmp_path):
    parameters, *others = [one for one in documents("cms.md") if "kind" in one]
    policies = [one for one in others if one["kind"] == "VarnishCachePolicy"]
    names = [policy["metadata"]["name"] for policy in policies]
    assert names == ["drupal", "magento", "wordpress", "symfony"]
    rules = [{"backendRefs": [{"name": "shop", "port": 80}]}]
    routes = [
        document(
            "HTTPRoute", name, "shop", spec={"parentRefs": [{"name": "shop"}], "hostnames": [host], "rules": rules}
        )
        for name, host in ((name, f"{name}.example.com") for name in names)
    ]
    reference = {"group": "gateway.varnish-software.com", "kind": "GatewayClassParameters", "name": "varnish"}
    the_class = document(
        "GatewayClass",
        "varnish",
        spec={
            "controllerName": "varnish-software.com/gateway",
            "parametersRef": reference,
        },
    )
    site = [SITE[0], SITE[2], the_class, parameters, *routes]
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump_all([*site, *policies]))
    translation = translate_files([str(tmp_path)])
    assert translation.changes.complaints == []
    (gateway,) = translation.gateways.values()
    assert {route.rules[0].cache.name: route.rules[0].cache.tag_headers for route in gateway.routes} == {
        "shop/drupal": ("Cache-Tags",),
        "shop/magento": ("X-Magento-Tags",),
        "shop/wordpress": ("X-Cache-Tags",),
        "shop/symfony": ("xkey", "X-Cache-Tags"),
    }
    assert b'"purgeRanges":["10.20.8.16/28"]' in gateway.shards[0]


def test_policies_of_the_guide_are_accepted_and_in_force(tmp_path):
    policies = [one for one in documents("caching.md") if one["kind"] == "VarnishCachePolicy"]
    assert [policy["metadata"]["name"] for policy in policies] == ["assets", "pages", "basket"]
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump_all([*SITE, *policies]))
    translation = translate_files([str(tmp_path)])
    assert translation.changes.complaints == []
    statuses = [one for key, one in translation.statuses.items() if key.kind == "VarnishCachePolicy"]
    conditions = [each.conditions[0] for one in statuses for each in one.ancestors]
    assert [(each.status, each.reason) for each in conditions] == [("True", "Accepted")] * 3
    ((route,),) = [gateway.routes for gateway in translation.gateways.values()]
    assert [rule.cache.name for rule in route.rules] == ["shop/assets", "shop/basket", "shop/pages"]
    assert route.rules[1].cache.forced_ttl == 0
