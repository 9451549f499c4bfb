"""Presets: what they expand to, and that none of them stores private content."""

import msgspec
import pytest

from support.builders.objects import cache_policy
from varnish_gateway._ghost import explain_cache
from varnish_gateway.api.varnish import CacheFields
from varnish_gateway.ir import wire
from varnish_gateway.translate.policy.cache_fields import translate_fields
from varnish_gateway.translate.policy.cache_patterns import compile_policy
from varnish_gateway.translate.policy.presets import EXCLUSIVE, PRESETS

PRIVATE = {
    "no-store": ([], [["cache-control", "no-store, max-age=60"]]),
    "private": ([], [["cache-control", "private, max-age=60"]]),
    "set-cookie": ([], [["cache-control", "max-age=60"], ["set-cookie", "session=1"]]),
    "authorization": ([["authorization", "Basic eA=="]], [["cache-control", "max-age=60"]]),
}


def expanded(*presets: str, **spec) -> wire.CachePolicy:
    policy, problems = translate_fields(cache_policy(presets=presets, **spec))
    assert problems == []
    return policy


def faults(*presets: str, **spec) -> str:
    return " ".join(problem.message for problem in translate_fields(cache_policy(presets=presets, **spec))[1])


def asked(policy: wire.CachePolicy, headers: list, response: list) -> dict:
    question = {
        "method": "GET",
        "headers": headers,
        "rule": "shop/tea/0",
        "listener": "web",
        "https": False,
        "authority": "tea.example.com",
        "target": "/account",
        "steps": 1_500_000,
        "now": 784_111_777_000,
        "response": {"status": 200, "headers": response},
    }
    return msgspec.json.decode(explain_cache(msgspec.json.encode(policy), msgspec.json.encode(question)))


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_is_a_whole_policy(preset):
    assert compile_policy(cache_policy(presets=[preset])).fault is None


@pytest.mark.parametrize("why", PRIVATE)
@pytest.mark.parametrize("preset", PRESETS)
def test_preset_stores_no_private_content(preset, why):
    headers, response = PRIVATE[why]
    verdict = asked(expanded(preset), headers, response)["response"]
    assert (verdict["stored"], verdict["word"]) == (False, why)


@pytest.mark.parametrize("preset", PRESETS)
def test_preset_never_shows_a_page_for_a_cookie_to_others(preset):
    """The origin doesn't get the cookie, or its response needs a stated lifetime."""
    answer = asked(expanded(preset), [["cookie", "login=alice"]], [])
    assert answer["removed"] == ["cookie (cookies outside of the key)"] or answer["response"]["stored"] is False


def test_session_of_a_cms_passes():
    for cookie in ("SESSabc=1", "wordpress_logged_in_x=1", "PHPSESSID=1"):
        assert asked(expanded("cms"), [["cookie", cookie]], [])["bypass"]["word"] == "bypass-cookie"
    assert asked(expanded("cms"), [["cookie", "_ga=1"]], [])["response"]["stored"] is True


def test_own_field_counts_before_a_preset():
    made = expanded("static", defaultTTL="1m", gzip=False, cacheKey={"headers": ["x-a"]})
    assert (made.default_ttl, made.gzip, made.stale_if_error) == (60_000, False, 86_400_000)
    assert made.cache_key.headers == ("x-a",)
    assert "utm_*" in made.cache_key.query_parameters.exclude


@pytest.mark.parametrize(("own", "other"), EXCLUSIVE.items())
def test_own_field_drops_what_it_excludes(own, other):
    names = {one.name: one.encode_name for one in msgspec.structs.fields(CacheFields)}
    made = expanded("static", **{names[own]: "7s"})
    assert (getattr(made, own), getattr(made, other)) == (7000, None)


def test_presets_that_disagree_are_contradictory_unless_the_policy_decides():
    assert (
        "presets: api and framework-isr disagree about staleIfError; remove one of them, or set staleIfError"
        in faults("api", "framework-isr")
    )
    assert expanded("api", "framework-isr", staleIfError="1h").stale_if_error == 3_600_000


def test_unknown_preset_is_a_fault_that_names_the_others():
    assert "presets: wordpress is unknown; use static, api, cms, framework-isr" in faults("wordpress")


def test_preset_and_private_content_exclude_each_other():
    assert "no preset stores private content" in faults("static", forcedTTL="1m", unsafeIgnoreNoStoreAndPrivate=True)
