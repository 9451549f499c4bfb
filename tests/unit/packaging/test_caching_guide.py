"""The policies of docs/guides/caching.md are valid and do what the page says."""

import re
from pathlib import Path

import yaml

from support.builders.objects import document
from varnish_gateway.standalone.translation import translate_files

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "caching.md"
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


def test_policies_of_the_guide_are_accepted_and_in_force(tmp_path):
    documents = [
        yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    ]
    policies = [one for one in documents if one["kind"] == "VarnishCachePolicy"]
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
