from support.builders.filters import rewrite, translate
from varnish_gateway.ir import wire


def test_prefix_can_be_replaced_with_nothing():
    path = {"type": "ReplacePrefixMatch", "replacePrefixMatch": ""}
    assert translate(rewrite(hostname="x.org", path=path)).filters == wire.Filters(
        rewrite=wire.Rewrite(hostname="x.org", path=wire.PathModifier(type="prefix", value=""))
    )
