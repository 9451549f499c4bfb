"""Compile the CEL rules of a schema (x-kubernetes-validations).

In:   the rules of one schema node.
Out:  a check of a value that otherwise conforms to the schema, or None if no rule is left.

All rules of a node are evaluated as one program, because passing a value to CEL costs more than
evaluating a rule. Only if the program returns false are the rules evaluated one by one. Valid
values are cached: thousands of routes have the same parents and paths. Rules about oldSelf compare
an object with its previous version; they are omitted, because a file has no previous version.
"""

# ruff: noqa: ANN401  a document's values can be anything

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cel
import msgspec

from varnish_gateway.standalone.schema.problem import FieldProblem

Check = Callable[[Any, list[FieldProblem]], None]

REMEMBERED = 1024

_TRANSITION = re.compile(r"\boldSelf\b")
# A field whose name is a reserved word of CEL is written __namespace__ in Kubernetes;
# the library uses the name without underscores.
_ESCAPED = re.compile(r"\b__(\w+?)__\b")


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# Kubernetes adds these to the standard functions of CEL.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "isIP": _is_ip,
    "split": lambda text, separator: text.split(separator),
}


def compile_rules(rules: Sequence[Mapping[str, str]], unusable: list[str]) -> Check | None:
    """Return the check of all rules; those that CEL rejects are appended to unusable."""
    programs = []
    for rule in rules:
        expression = _ESCAPED.sub(r"\1", rule["rule"])
        if _TRANSITION.search(expression):
            continue
        try:
            programs.append((cel.compile(expression), rule.get("message") or f"must hold: {expression}"))
        except ValueError:
            unusable.append(rule["rule"])
    if not programs:
        return None
    together = cel.compile(" && ".join(f"({program.source})" for program, _ in programs))
    good: set[bytes] = set()

    def check(value: Any, problems: list[FieldProblem]) -> None:
        encoded = msgspec.json.encode(value)
        if encoded in good:
            return
        if _holds(together, value):
            if len(good) >= REMEMBERED:
                good.clear()
            good.add(encoded)
            return
        problems.extend(FieldProblem(message) for program, message in programs if not _holds(program, value))

    return check


def _holds(program: cel.Program, value: Any) -> bool:
    """Evaluate a rule; one that can't be evaluated does not hold, as in the API server."""
    try:
        return program.execute({"self": value, **_FUNCTIONS}) is True
    except (KeyError, TypeError, ValueError, RuntimeError):
        return False
