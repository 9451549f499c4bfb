"""CEL rules as Kubernetes writes them."""

import pytest

from varnish_gateway.standalone.schema.rules import compile_rules


def holds(rule: str, value: object) -> bool:
    problems, unusable = [], []
    check = compile_rules([{"rule": rule, "message": "no"}], unusable)
    assert check is not None
    assert not unusable
    check(value, problems)
    return not problems


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("self.startsWith('/')", "/a", "a"),
        ("self.all(key, key.split('/')[0].size() < 4)", {"abc/d": "x"}, {"abcd/e": "x"}),
        ("self.all(a, isIP(a))", ["10.0.0.1", "::1"], ["host"]),
        ("!has(self.__namespace__) || self.__namespace__ == 'a'", {"namespace": "a"}, {"namespace": "b"}),
        ("duration(self.a) <= duration(self.b)", {"a": "10ms", "b": "1s"}, {"a": "2h", "b": "1m"}),
        ("self.matches(r'^a+$')", "aa", "b"),
        ("self.exists_one(x, x.a == 1)", [{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 1}]),
    ],
)
def test_cel_functions_of_the_crds_work(rule, good, bad):
    assert holds(rule, good)
    assert not holds(rule, bad)


def test_failing_evaluation_violates_the_rule():
    assert not holds("self.missing == 1", {})


def test_transition_rule_is_skipped():
    unusable: list[str] = []
    assert compile_rules([{"rule": "self == oldSelf", "message": "immutable"}], unusable) is None
    assert unusable == []


def test_rule_that_does_not_compile_is_reported():
    unusable: list[str] = []
    assert compile_rules([{"rule": "self ===", "message": "x"}], unusable) is None
    assert unusable == ["self ==="]
