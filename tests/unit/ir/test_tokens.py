"""Who may invalidate what."""

import json

import pytest
from msgspec import UNSET

from varnish_gateway import errors
from varnish_gateway.ir.invalidation import Invalidation, InvalidationTarget
from varnish_gateway.ir.tokens import Token, out_of_scope, read_tokens, within_scope

SECRET = "0123456789abcdef"
EVERYWHERE = Token(name="ci", token=SECRET)
SHOP = Token(name="shop", token=SECRET, namespaces=("shop",), routes=("blog/pages",))


def read(*tokens: dict[str, object]) -> tuple[Token, ...]:
    return read_tokens(json.dumps({"tokens": tokens}).encode())


def invalidation(*targets: dict[str, object], **more: object) -> Invalidation:
    return Invalidation(targets=tuple(InvalidationTarget(**target) for target in targets), **more)


def test_document_of_tokens_is_read():
    scoped = {"name": "shop", "token": SECRET, "namespaces": ["shop"], "routes": ["blog/pages"]}
    assert read({"name": "ci", "token": "A" * 16 + "-._~+/=="}, scoped) == (
        Token(name="ci", token="A" * 16 + "-._~+/=="),
        SHOP,
    )
    assert read() == ()


FORM = "write 16 letters, digits or -._~+/ at least, such as `openssl rand -hex 32` prints"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token": SECRET[:15]}, f"tokens[1].token: {FORM}"),
        ({"token": "my secret with blanks"}, f"tokens[1].token: {FORM}"),
        ({"token": 1}, "tokens[1].token: expected `str`, got `int`"),
        ({"name": ""}, "tokens[1].name: write a word for the log"),
        ({"name": "a\nb"}, "tokens[1].name: write a word for the log"),
        ({"name": "ci"}, "tokens[0].name: another one has the same"),
        ({"token": SECRET}, "tokens[0].token: another one has the same"),
        ({"namespaces": []}, "tokens[1].namespaces: it is empty; name what the token is for, or delete the token"),
        ({"routes": []}, "tokens[1].routes: it is empty; name what the token is for, or delete the token"),
        ({"namespaces": ["shop/tea"]}, "tokens[1].namespaces[0]: write the name of a namespace"),
        ({"routes": ["a/b", "tea"]}, "tokens[1].routes[1]: write namespace/name"),
        ({"d" * 16: "x"}, "tokens[1]: object contains another field than name, token, namespaces and routes"),
    ],
)
def test_fault_names_the_field_and_no_token(changes, message):
    with pytest.raises(errors.BadDocument) as raised:
        read({"name": "ci", "token": SECRET}, {"name": "shop", "token": "fedcba9876543210", **changes})
    assert str(raised.value) == message


def test_token_does_not_show_itself():
    assert SECRET not in f"{SHOP} {[SHOP]!r}"


@pytest.mark.parametrize(
    ("route", "is_covered"),
    [("shop/tea", True), ("shopping/tea", False), ("blog/pages", True), ("blog/pages2", False), ("blog/other", False)],
)
def test_scope_has_the_routes_of_its_namespaces_and_those_it_names(route, is_covered):
    assert SHOP.covers(route) == is_covered
    assert EVERYWHERE.covers(route)


def test_route_outside_of_the_scope_is_named():
    asked = invalidation({"host": "a"}, {"route": "shop/tea"}, {"route": "blog/other"})
    assert out_of_scope(asked, EVERYWHERE) is None
    assert out_of_scope(asked, SHOP) == (
        "targets[2].route: the token isn't for blog/other; leave it out, or use a token that has it in its scope"
    )
    assert out_of_scope(invalidation({"host": "a"}, routes=("shop/tea", "blog/other")), SHOP).startswith("routes[1]: ")
    assert out_of_scope(invalidation({"host": "a"}, {"everything": True}, routes=("shop/tea",)), SHOP) is None


def test_namespace_outside_of_the_scope_is_named():
    """A token for some routes of a namespace isn't for all of them."""
    asked = invalidation({"host": "a"}, namespaces=("shop", "blog"))
    assert out_of_scope(asked, EVERYWHERE) is None
    assert out_of_scope(asked, SHOP).startswith("namespaces[1]: the token isn't for blog; ")
    assert out_of_scope(invalidation({"host": "a"}, namespaces=("shop",)), SHOP) is None


def restriction(asked: Invalidation, token: Token) -> tuple[object, object]:
    within = within_scope(asked, token)
    return within.namespaces, within.routes


def test_hosts_and_tags_of_a_scoped_token_mean_objects_of_its_namespaces_and_routes():
    asked = invalidation({"tags": ("a",)}, {"everything": True})
    assert restriction(asked, SHOP) == (("shop",), ("blog/pages",))
    assert restriction(asked, EVERYWHERE) == (UNSET, UNSET)
    assert restriction(asked, Token(name="r", token=SECRET, routes=("gone/route",))) == (UNSET, ("gone/route",))


def test_narrower_restriction_of_the_client_stays():
    assert restriction(invalidation({"host": "a"}, routes=("shop/tea",)), SHOP) == (UNSET, ("shop/tea",))
    assert restriction(invalidation({"host": "a"}, namespaces=("shop",)), SHOP) == (("shop",), UNSET)
    assert restriction(invalidation({"host": "a"}, namespaces=()), SHOP) == ((), UNSET), "nothing is a restriction"
