"""A compiled schema checks, applies defaults and says what was expected."""

import pytest

from varnish_gateway.standalone.schema.problem import dotted
from varnish_gateway.standalone.schema.structure import compile_schema


def check(schema: dict, value: object) -> list[str]:
    problems, unusable = [], []
    compile_schema(schema, unusable)(value, problems)
    assert not unusable
    return [f"{dotted(problem.path)}: {problem.message}" for problem in problems]


def fields(**properties: dict) -> dict:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "string"}, 80, 'expected a string, got the number 80; write it in quotes: "80"'),
        ({"type": "string"}, True, 'expected a string, got the boolean true; write it in quotes: "true"'),
        ({"type": "string"}, ["x"], "expected a string, got a list"),
        ({"type": "string", "minLength": 1}, "", "must not be empty"),
        ({"type": "string", "maxLength": 2}, "abc", "takes at most 2 characters, got 3"),
        ({"type": "string", "enum": ["Same", "All"]}, "all", '"all" is not one of Same, All; did you mean "All"?'),
        ({"type": "string", "enum": ["Same", "All"]}, "x", '"x" is not one of Same, All'),
        ({"type": "string", "pattern": "^[a-z]+$"}, "Abc", '"Abc" has to be written with lower case: "abc"'),
        ({"type": "string", "pattern": "^[a-z]+$"}, "abc.", '"abc." has to be written with no dot at the end: "abc"'),
        ({"type": "string", "pattern": "^[a-z]+$"}, "1", '"1" does not match the pattern ^[a-z]+$'),
        ({"type": "string", "pattern": "^[a-z]+$"}, "a\n", '"a\n" has to be written with no space around it: "a"'),
        ({"type": "string", "format": "date-time"}, "x", 'expected a time such as 2026-01-31T12:00:00Z, got "x"'),
        ({"type": "integer"}, "80", 'expected an integer, got the string "80"; remove the quotes'),
        ({"type": "integer"}, 1.5, "expected an integer, got the number 1.5"),
        ({"type": "integer"}, True, "expected an integer, got the boolean true"),
        ({"type": "integer", "minimum": 1, "maximum": 65535}, 0, "expected an integer from 1 to 65535, got 0"),
        ({"type": "integer", "minimum": 1}, 0, "expected an integer of at least 1, got 0"),
        ({"type": "number", "maximum": 1}, 2, "expected a number of at most 1, got 2"),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            f"expected an integer from {-(2**31)} to {2**31 - 1}, got {2**31}",
        ),
        ({"type": "integer", "enum": [301, 302]}, 300, "300 is not one of 301, 302"),
        ({"type": "boolean"}, "yes", 'expected true or false, got the string "yes"'),
        ({"type": "array", "items": {}}, {"a": 1}, 'expected a list, got an object; put "- " in front of it'),
        ({"type": "array", "items": {}, "minItems": 1}, [], "needs at least 1 entry, got 0"),
        ({"type": "array", "items": {}, "maxItems": 1}, [1, 2], "takes at most 1 entries, got 2"),
        ({"type": "object"}, "x", 'expected an object, got the string "x"'),
        ({"type": "object", "maxProperties": 1}, {"a": 1, "b": 2}, "takes at most 1 entries, got 2"),
        ({"x-kubernetes-int-or-string": True}, 1.5, "expected an integer or a string, got the number 1.5"),
    ],
)
def test_invalid_value_is_rejected(schema, value, message):
    assert check(schema, value) == [f": {message}"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "number"}, 1),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "10%"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": "b"}),
        ({"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": True}, {"b": 1}),
        ({"type": "object"}, {"anything": [1]}),
    ],
)
def test_valid_value_is_accepted(schema, value):
    assert check(schema, value) == []


def test_problems_name_their_field():
    schema = fields(rules={"type": "array", "items": fields(port={"type": "integer"})})
    assert check(schema, {"rules": [{"port": 1}, {"port": "x"}]}) == [
        'rules[1].port: expected an integer, got the string "x"'
    ]


def test_unknown_field_suggests_the_right_one():
    schema = fields(backendRefs={}, matches={}, type={"default": "a"})
    assert check(schema, {"backendRef": 1}) == ['backendRef: unknown field; did you mean "backendRefs"?']
    assert check(schema, {"MATCHES": 1}) == ['MATCHES: unknown field; did you mean "matches"?']
    assert check(schema, {"typ": 1}) == ['typ: unknown field; did you mean "type"?'], "though type has a default"
    assert check(schema, {"zzz": 1}) == ["zzz: unknown field; known here: backendRefs, matches, type"]


def test_missing_required_field_is_reported():
    assert check({**fields(name={}), "required": ["name"]}, {}) == ["name: is required"]


def test_defaults_are_applied_from_the_outside_in():
    inner = fields(**{"from": {"type": "string", "default": "Same"}})
    schema = fields(namespaces={**inner, "default": {}})
    value: dict = {}
    assert check(schema, value) == []
    assert value == {"namespaces": {"from": "Same"}}


def test_defaults_are_not_shared_between_documents():
    unusable: list[str] = []
    compiled = compile_schema(fields(a={"type": "object", "default": {"b": 1}}), unusable)
    first, second = {}, {}
    compiled(first, [])
    compiled(second, [])
    first["a"]["b"] = 2
    assert second == {"a": {"b": 1}}


def test_null_counts_as_absent_unless_nullable():
    value = {"a": None, "b": None, "c": None}
    schema = fields(a={"type": "string"}, b={"type": "string", "default": "x"}, c={"nullable": True})
    assert check(schema, value) == []
    assert value == {"b": "x", "c": None}


def test_duplicates_in_list_maps_and_sets_are_rejected():
    by_name = {"type": "array", "items": {}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    assert check(by_name, [{"name": "a"}, {"name": "b"}, {"name": "a"}]) == [
        "[2]: has the same name 'a' as entry [0]; each may occur once"
    ]
    as_set = {"type": "array", "items": {}, "x-kubernetes-list-type": "set"}
    assert check(as_set, ["a", "a"]) == ["[1]: has the same a as entry [0]; each may occur once"]


ADDRESS = {
    **fields(type={"type": "string"}, value={"type": "string"}),
    "oneOf": [
        fields(type={"enum": ["IPAddress"]}, value={"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]}),
        fields(type={"not": {"enum": ["IPAddress"]}}),
    ],
}


def test_alternatives_report_the_closest_one():
    assert check(ADDRESS, {"type": "IPAddress", "value": "10.0.0.1"}) == []
    assert check(ADDRESS, {"type": "IPAddress", "value": "::1"}) == []
    assert check(ADDRESS, {"type": "Hostname", "value": "x"}) == []
    assert check(ADDRESS, {"type": "IPAddress", "value": "x"}) == [
        'value: expected an IPv4 address, got "x" or expected an IPv6 address, got "x"'
    ]


def test_unknown_schema_keyword_is_rejected_when_compiling():
    with pytest.raises(ValueError, match="multipleOf"):
        compile_schema({"type": "integer", "multipleOf": 2}, [])


RULES = [
    {"rule": "self.low <= self.high", "message": "low must not exceed high"},
    {"rule": "self.high < 10", "message": "high must stay below 10"},
]


def test_violated_rules_are_reported_one_by_one():
    schema = {**fields(low={"type": "integer"}, high={"type": "integer"}), "x-kubernetes-validations": RULES}
    assert check(schema, {"low": 1, "high": 2}) == []
    assert check(schema, {"low": 3, "high": 2}) == [": low must not exceed high"]
    assert check(schema, {"low": 30, "high": 20}) == [": low must not exceed high", ": high must stay below 10"]


def test_rules_run_only_on_a_valid_structure():
    schema = {**fields(low={"type": "integer"}, high={"type": "integer"}), "x-kubernetes-validations": RULES}
    assert check(schema, {"low": "x", "high": 20}) == ['low: expected an integer, got the string "x"']
