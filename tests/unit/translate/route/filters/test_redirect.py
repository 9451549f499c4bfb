from support.builders.filters import redirect, translate
from varnish_gateway.ir import wire


def test_redirect_with_every_field_is_translated():
    path = {"type": "ReplaceFullPath", "replaceFullPath": "/b"}
    got = translate(redirect(scheme="https", hostname="x.org", port=8443, statusCode=301, path=path))
    assert got.redirect == wire.Redirect(
        scheme="https",
        hostname="x.org",
        port=8443,
        status=301,
        path=wire.PathModifier(type="full", value="/b"),
    )
    assert got.filters is None
