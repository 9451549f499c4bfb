"""A certificate that became invalid: the one that the Gateway serves stays, until the user takes it away."""

import pytest

from support import certificates
from support.builders.objects import certificate, gateway, https, keyed, listener_set, obj, secret_grant
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.decoding import decode
from varnish_gateway.translate import Translator
from varnish_gateway.translate.tls.served import served_after

GW = Key("Gateway", "default", "gw")
CERT = Key("Secret", "default", "cert")
ROOT = certificates.authority("root")
GOOD, OTHER = ROOT.issue("www.example.com"), ROOT.issue("other.example.com")
PLAIN = {"name": "http", "port": 80, "protocol": "HTTP"}
INVALID = ("False", "InvalidCertificateRef")
SERVED = ("True", "ResolvedRefs")


def secret(crt: bytes, key: bytes, name: str = "cert", **more) -> api.Object:
    return decode(certificates.secret("default", name, crt, key) | more)


class World:
    """A translator that gets back what it published, as every program gives it back."""

    def __init__(self, *objects: api.Object, **options) -> None:
        self.translator = Translator(assume_class=True, **options)
        self.state = ir.GatewayState()
        self.served: dict = {}
        self.put(*objects)

    def put(self, *objects: api.Object) -> None:
        self.update(keyed(*objects))

    def update(self, changes: dict) -> None:
        delta = self.translator.update(changes | self.served)
        self.served = served_after(delta)
        if (changed := delta.gateways.get(GW)) is not None:
            self.state.apply(changed)
        self.statuses = getattr(self, "statuses", {}) | delta.statuses

    @property
    def sources(self) -> list[str]:
        """The Secrets whose certificates serve."""
        return sorted(source.name for sources in self.state.tls.sources.values() for source in sources)

    def condition(self, type_: str, owner: Key = GW) -> tuple[str, str]:
        (listener,) = self.statuses[owner].listeners
        return next((one.status, one.reason) for one in listener.conditions if one.type == type_)

    def message(self) -> str:
        (listener,) = self.statuses[GW].listeners
        return next(one.message for one in listener.conditions if one.type == "ResolvedRefs")


BAD_EDITS = {
    "truncated tls.crt": secret(GOOD.crt[:-60], GOOD.private),
    "key of another certificate": secret(GOOD.crt, OTHER.private),
    "type Opaque": secret(GOOD.crt, GOOD.private, type="Opaque"),
    "without tls.key": decode(certificates.secret("default", "cert", GOOD.crt, b"") | {"data": {}}),
    "deleted": None,
}


@pytest.mark.parametrize("edit", BAD_EDITS.values(), ids=BAD_EDITS.keys())
def test_bad_edit_keeps_the_certificate_and_is_reported(edit):
    world = World(gateway("gw", https()), secret(GOOD.crt, GOOD.private))
    before = world.state.tls, world.state.listeners
    world.update({CERT: edit})
    assert (world.state.tls, world.state.listeners) == before
    assert world.condition("ResolvedRefs") == INVALID
    assert world.condition("Programmed")[0] == "Unknown"  # the data plane decides
    assert "the last valid certificate keeps serving" in world.message()
    world.put(secret(OTHER.crt, OTHER.private))
    assert world.condition("ResolvedRefs") == SERVED
    assert world.state.tls != before[0]


@pytest.mark.parametrize("edit", [BAD_EDITS["truncated tls.crt"], None], ids=["invalid", "missing"])
def test_certificate_that_never_was_valid_is_not_served(edit):
    world = World(gateway("gw", https()))
    world.update({CERT: edit})
    assert world.state.listeners == ()
    assert world.condition("ResolvedRefs") == INVALID
    assert world.condition("Programmed") == ("False", "Invalid")


def test_the_last_valid_certificate_is_the_newest_one():
    world = World(gateway("gw", https()), secret(OTHER.crt, OTHER.private))
    world.put(secret(GOOD.crt, GOOD.private))
    newest = world.state.tls
    world.put(BAD_EDITS["truncated tls.crt"])
    world.put(BAD_EDITS["type Opaque"])
    assert world.state.tls == newest


def test_the_key_goes_with_its_reference():
    """And does not come back with it: a removed reference is no typo in a Secret."""
    world = World(gateway("gw", https()), secret(GOOD.crt, GOOD.private), secret(OTHER.crt, OTHER.private, "other"))
    world.update({CERT: None})
    assert world.sources == ["cert"]
    world.put(gateway("gw", https("https", "other")))
    assert world.sources == ["other"]
    world.put(gateway("gw", https()))
    assert world.sources == []


def test_the_key_goes_with_its_listener():
    world = World(gateway("gw", https()), secret(GOOD.crt, GOOD.private))
    world.update({CERT: None})
    world.put(gateway("gw", PLAIN))
    assert world.state.tls == ir.Tls()


def test_the_key_goes_with_its_grant():
    ref = {"name": "cert", "namespace": "vault"}
    grant, cert = secret_grant("vault"), certificate(namespace="vault")
    world = World(gateway("gw", https("https", ref)), cert, grant)
    world.update({Key("Secret", "vault", "cert"): None})
    assert world.sources == ["cert"]
    world.update(dict.fromkeys(keyed(grant)))
    assert world.sources == []
    assert world.condition("ResolvedRefs") == ("False", "RefNotPermitted")
    world.put(grant)
    assert world.sources == []


def test_the_key_goes_with_its_gateway():
    world = World(gateway("gw", https()), secret(GOOD.crt, GOOD.private))
    world.update({CERT: None, GW: None})
    world.update({})
    world.put(gateway("gw", https()))
    assert world.condition("Programmed") == ("False", "Invalid")


def test_bad_edit_of_a_listener_sets_certificate_keeps_it():
    own = Key("ListenerSet", "team", "set")
    world = World(
        gateway("gw", PLAIN, allowedListeners={"namespaces": {"from": "All"}}),
        listener_set("set", https(), namespace="team"),
        certificate(namespace="team"),
    )
    before = world.state.tls
    assert before.ports
    world.put(obj("Secret", "cert", "team", group="", type="kubernetes.io/tls"))
    assert world.state.tls == before
    assert world.condition("ResolvedRefs", own) == INVALID


def test_certificate_of_one_gateway_serves_no_other():
    """Each Gateway falls back on what it serves itself."""
    world = World(gateway("gw", PLAIN), gateway("one", https()), certificate())
    world.update({CERT: None})
    world.put(gateway("gw", https("https", port=444)))
    assert world.condition("ResolvedRefs") == INVALID
    assert world.state.tls == ir.Tls()
