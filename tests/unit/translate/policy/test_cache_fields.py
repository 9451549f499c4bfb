"""Fields of policies and of the wire format, side by side."""

import msgspec
import pytest

from support.builders.objects import cache_policy
from varnish_gateway.api.varnish import CacheFields
from varnish_gateway.ir import wire
from varnish_gateway.translate.policy.cache_fields import translate_fields
from varnish_gateway.translate.policy.cache_patterns import compile_policy


def test_policy_has_every_field_of_the_wire_format():
    fields = {one.encode_name for one in msgspec.structs.fields(CacheFields)}
    travelling = {one.encode_name for one in msgspec.structs.fields(wire.CachePolicy)}
    assert fields == travelling - {"name", "off"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"defaultTTL": "1d"}, "defaultTTL: '1d' is not a duration"),
        ({"statusTTLs": [{"status": "404", "ttl": "x"}]}, "statusTTLs[0].ttl: 'x' is not a duration"),
        ({"jitterPercent": 101}, "jitterPercent: 101 is not between 0 and 100"),
        ({"maxObjectSize": -1}, "maxObjectSize: -1 is not between 0 and"),
        ({"revalidation": {"perObject": -1}}, "revalidation.perObject: -1 is not between 0"),
        ({"setCookie": "Keep"}, "setCookie: Keep is not one of DoNotStore, Remove; correct it"),
        ({"requestCookies": "explicit"}, "requestCookies: explicit is not one of Explicit, Remove, Ignore"),
        ({"cacheStatus": "Always"}, "cacheStatus: Always is not one of Off, On, Trusted"),
        ({"tagHeaders": ["Tags"]}, "tagHeaders: Tags is not one of Surrogate-Key, Cache-Tag, xkey, "),
        ({"cacheKey": {"queryParameters": {"include": [], "exclude": []}}}, "include excludes exclude"),
    ],
)
def test_wrong_value_is_a_problem_with_its_field_and_remedy(spec, expected):
    (problem,) = translate_fields(cache_policy(**spec))[1]
    assert problem.reason == "Invalid"
    assert expected in problem.message


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"defaultTTL": "1m", "forcedTTL": "1m"}, "forcedTTL: excludes defaultTTL; remove one of them"),
        ({"grace": "1m", "staleWhileRevalidate": "1m"}, "staleWhileRevalidate: excludes grace"),
        ({"bypass": {"headers": [{"name": "a b"}]}}, 'bypass.headers[0].name: "a b" is not the name of a header'),
        ({"bypass": {"cookies": [""]}}, "bypass.cookies[0]: a glob must not be empty"),
        ({"bypass": {"headers": [{"name": "a", "valueRegex": "(?=x)"}]}}, "bypass.headers[0].valueRegex: "),
        ({"statusTTLs": [{"status": "99", "ttl": "1s"}]}, 'statusTTLs[0].status: "99" can\'t be stored'),
        ({"unsafeIgnoreNoStoreAndPrivate": True}, "unsafeIgnoreNoStoreAndPrivate: has an effect only with forcedTTL"),
        ({"cacheKey": {"headers": ["x"] * 65}}, "cacheKey.headers: 65 entries are more than 64"),
    ],
)
def test_ghost_judges_what_fields_mean_together(spec, expected):
    assert expected in (compile_policy(cache_policy(**spec)).fault or "")


def test_manifest_of_varnish_gateway_works_unchanged():
    spec = {
        "defaultTTL": "5m",
        "grace": "1h",
        "keep": "24h",
        "cacheKey": {"headers": ["Accept-Language"], "queryParameters": {"include": ["page", "sort"]}},
        "bypass": {"headers": [{"name": "Authorization"}, {"name": "Cookie", "valueRegex": ".*session=.*"}]},
    }
    compiled = compile_policy(cache_policy(**spec))
    assert compiled.fault is None
    assert compiled.source == wire.CachePolicy(
        name="default/cache",
        default_ttl=300_000,
        grace=3_600_000,
        keep=86_400_000,
        cache_key=wire.CacheKey(
            headers=("Accept-Language",), query_parameters=wire.QueryParameters(include=("page", "sort"))
        ),
        bypass=wire.Bypass(
            headers=(
                wire.BypassHeader(name="Authorization"),
                wire.BypassHeader(name="Cookie", value_regex=".*session=.*"),
            )
        ),
    )
