"""Compile an OpenAPI schema, as CRDs contain it, into a check.

In:   a structural schema.
Out:  a function that checks a document, applies defaults to it in place like the API server, and
      appends the problems that it finds.
Compilation rejects an unknown keyword: nothing goes unchecked in silence.

The order is the API server's: nulls that the schema does not allow are dropped, defaults
filled in, then the structure is checked, and CEL rules see only what passed that.
"""

# ruff: noqa: ANN401  a document's values can be anything

import copy
from collections.abc import Callable, Mapping
from typing import Any

from varnish_gateway.standalone.schema import scalars
from varnish_gateway.standalone.schema.problem import FieldProblem, did_you_mean, kind_of
from varnish_gateway.standalone.schema.rules import compile_rules

Check = Callable[[Any, list[FieldProblem]], None]
Schema = Mapping[str, Any]

_KNOWN_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "default", "nullable"),
        *("enum", "pattern", "format", "minLength", "maxLength", "minimum", "maximum"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
        *("allOf", "anyOf", "oneOf", "not"),
        *("x-kubernetes-validations", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
        *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    }
)


def compile_schema(schema: Schema, unusable_rules: list[str]) -> Check:
    """Return the check of schema; CEL rules that can't be used are appended to unusable_rules."""
    if unknown := set(schema) - _KNOWN_KEYWORDS:
        raise ValueError(f"schema keywords without a meaning here: {', '.join(sorted(unknown))}")
    checks = [_by_type(schema, unusable_rules)]
    if not schema.get("x-kubernetes-int-or-string"):
        checks += _combinations(schema)
    rules = compile_rules(schema.get("x-kubernetes-validations", ()), unusable_rules)
    if len(checks) == 1 and rules is None:
        return checks[0]

    def check(value: Any, problems: list[FieldProblem]) -> None:
        before = len(problems)
        for each in checks:
            each(value, problems)
        if rules is not None and len(problems) == before:
            rules(value, problems)

    return check


def _by_type(schema: Schema, unusable_rules: list[str]) -> Check:
    if schema.get("x-kubernetes-int-or-string"):
        return scalars.int_or_string
    match schema.get("type"):
        case "object":
            check = _object(schema, unusable_rules)
        case "array":
            check = _array(schema, unusable_rules)
        case "string":
            check = scalars.string(schema)
        case "integer" | "number":
            check = scalars.number(schema)
        case "boolean":
            check = scalars.boolean
        case None:
            check = _anything
        case other:
            raise ValueError(f"schema type without a meaning here: {other}")
    return check


def _anything(_value: Any, _problems: list[FieldProblem]) -> None:
    """Take every value: the node has no type."""


# -- objects ---------------------------------------------------------------------------


def _object(schema: Schema, unusable_rules: list[str]) -> Check:
    properties = schema.get("properties", {})
    children = {name: compile_schema(child, unusable_rules) for name, child in properties.items()}
    nullable = frozenset(name for name, child in properties.items() if child.get("nullable"))
    defaults = {name: child["default"] for name, child in properties.items() if "default" in child}
    required = schema.get("required", ())
    others = _additional(schema, unusable_rules)
    size = _size(schema.get("minProperties", 0), schema.get("maxProperties"))

    def check(value: Any, problems: list[FieldProblem]) -> None:
        if type(value) is not dict:
            problems.append(FieldProblem(f"expected an object, got {kind_of(value)}"))
            return
        _drop_nulls(value, children, nullable)
        for name in defaults.keys() - value.keys():
            value[name] = copy.deepcopy(defaults[name])
        problems.extend(FieldProblem("is required", [name]) for name in required if name not in value)
        for name, child_value in value.items():
            child = children.get(name, others)
            before = len(problems)
            if child is not None:
                child(child_value, problems)
            else:
                free = children.keys() - (value.keys() - defaults.keys())
                problems.append(FieldProblem(f"unknown field{did_you_mean(name, free)}"))
            for problem in problems[before:]:
                problem.steps.append(name)
        size(value, problems)

    return check


def _additional(schema: Schema, unusable_rules: list[str]) -> Check | None:
    """Return the check of fields that have no schema of their own; None: there may be none."""
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return compile_schema(additional, unusable_rules)
    if additional or schema.get("x-kubernetes-preserve-unknown-fields"):
        return _anything
    has_no_fields = "properties" not in schema
    return _anything if has_no_fields else None


def _drop_nulls(value: dict[str, Any], children: Mapping[str, Check], nullable: frozenset[str]) -> None:
    if None in value.values():
        for name in [name for name, child in value.items() if child is None]:
            if name in children and name not in nullable:
                del value[name]


# -- lists -----------------------------------------------------------------------------


def _array(schema: Schema, unusable_rules: list[str]) -> Check:
    item_check = compile_schema(schema.get("items", {}), unusable_rules)
    size = _size(schema.get("minItems", 0), schema.get("maxItems"))
    unique = _uniqueness(schema)

    def check(value: Any, problems: list[FieldProblem]) -> None:
        if type(value) is not list:
            remedy = '; put "- " in front of it' if isinstance(value, dict | str) else ""
            problems.append(FieldProblem(f"expected a list, got {kind_of(value)}{remedy}"))
            return
        size(value, problems)
        for index, item in enumerate(value):
            before = len(problems)
            item_check(item, problems)
            for problem in problems[before:]:
                problem.steps.append(index)
        if unique is not None:
            unique(value, problems)

    return check


def _uniqueness(schema: Schema) -> Check | None:
    """Return the check that a list of the type set or map holds nothing twice."""
    list_type = schema.get("x-kubernetes-list-type")
    if list_type not in ("set", "map"):
        return None
    keys = schema.get("x-kubernetes-list-map-keys", ())

    def check(value: Any, problems: list[FieldProblem]) -> None:
        seen: dict[Any, int] = {}
        for index, item in enumerate(value):
            if list_type == "map" and isinstance(item, dict):
                identity: Any = tuple(str(item.get(key)) for key in keys)
                named = ", ".join(f"{key} {item.get(key)!r}" for key in keys)
            else:
                identity = named = str(item)
            first = seen.setdefault(identity, index)
            if first != index:
                problems.append(FieldProblem(f"has the same {named} as entry [{first}]; each may occur once", [index]))

    return check


def _size(at_least: int, at_most: int | None) -> Check:
    """Return the check of how many entries a list or an object has."""

    def check(value: Any, problems: list[FieldProblem]) -> None:
        if len(value) < at_least:
            noun = "entry" if at_least == 1 else "entries"
            problems.append(FieldProblem(f"needs at least {at_least} {noun}, got {len(value)}"))
        elif at_most is not None and len(value) > at_most:
            problems.append(FieldProblem(f"takes at most {at_most} entries, got {len(value)}"))

    return check


# -- allOf, anyOf, oneOf, not -------------------------------------------------------------


def _combinations(schema: Schema) -> list[Check]:
    checks: list[Check] = [_alternative(each) for each in schema.get("allOf", ())]
    if "anyOf" in schema:
        checks.append(_any_of([_alternative(each) for each in schema["anyOf"]], exactly_one=False))
    if "oneOf" in schema:
        checks.append(_any_of([_alternative(each) for each in schema["oneOf"]], exactly_one=True))
    if "not" in schema:
        checks.append(_not(_alternative(schema["not"])))
    return checks


def _alternative(schema: Schema) -> Check:
    """Compile a schema inside a combination: it names values and fields, but does not list all fields."""
    checks = _combinations(schema)
    fields = {name: _alternative(child) for name, child in schema.get("properties", {}).items()}
    if "format" in schema or "pattern" in schema or schema.get("type") == "string":
        checks.append(scalars.string(schema))
    elif "enum" in schema:
        checks.append(_one_of_values(schema["enum"]))

    def check(value: Any, problems: list[FieldProblem]) -> None:
        for each in checks:
            each(value, problems)
        if not isinstance(value, dict):
            return
        problems.extend(FieldProblem("is required", [name]) for name in schema.get("required", ()) if name not in value)
        for name, child in fields.items():
            if name in value:
                before = len(problems)
                child(value[name], problems)
                for problem in problems[before:]:
                    problem.steps.append(name)

    return check


def _one_of_values(values: list[Any]) -> Check:
    def check(value: Any, problems: list[FieldProblem]) -> None:
        if value not in values:
            problems.append(FieldProblem(f"is not one of {', '.join(map(str, values))}"))

    return check


def _any_of(alternatives: list[Check], *, exactly_one: bool) -> Check:
    def check(value: Any, problems: list[FieldProblem]) -> None:
        attempts: list[list[FieldProblem]] = []
        for alternative in alternatives:
            attempt: list[FieldProblem] = []
            alternative(value, attempt)
            attempts.append(attempt)
        matching = sum(not attempt for attempt in attempts)
        if not matching:
            # The alternative that came furthest down is the one that was meant.
            problems.extend(_closest(attempts))
        elif exactly_one and matching > 1:
            problems.append(FieldProblem("fits several alternatives of which it may fit one"))

    return check


def _closest(attempts: list[list[FieldProblem]]) -> list[FieldProblem]:
    deepest = max(attempts, key=lambda attempt: (max(len(p.steps) for p in attempt), -len(attempt)))
    same_place = [attempt[0] for attempt in attempts if attempt[0].steps == deepest[0].steps]
    message = " or ".join(dict.fromkeys(problem.message for problem in same_place))
    return [FieldProblem(message, deepest[0].steps)]


def _not(inner: Check) -> Check:
    def check(value: Any, problems: list[FieldProblem]) -> None:
        attempt: list[FieldProblem] = []
        inner(value, attempt)
        if not attempt:
            problems.append(FieldProblem("has a form that is not allowed here"))

    return check
