"""Translate the rules of an HTTPRoute.

In:   a route with its compiled matches, and the view for its backends.
Out:  wire.Rules, the problems of each rule that can't be served, the references that
      can't be resolved.
A rule with a problem stays where it is and answers 500: its neighbours keep their index, which is
part of their cache keys. One whose matches are at fault is marked as approximate, because what is
left of them may match more than intended: ghost then prefers valid rules.
Conditions count rules from 0, as ``vgw explain`` and ghost do.
A reference that can't be resolved answers 500 for its share of the weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, structs

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import Problem, summary
from varnish_gateway.translate.policy.backend_tls import TlsRequired
from varnish_gateway.translate.route.backends import resolve
from varnish_gateway.translate.route.filters.rule_filters import translate_backend_filters, translate_filters
from varnish_gateway.translate.route.retries import translate_retry
from varnish_gateway.translate.route.timeouts import translate_timeouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from varnish_gateway.api import HTTPRoute, Key
    from varnish_gateway.api.gateway_networking import RouteRule
    from varnish_gateway.translate.incremental.view import View
    from varnish_gateway.translate.route.compiled_matches import CompiledMatches


class Rules(Struct, frozen=True):
    """The rules of one route."""

    rules: tuple[wire.Rule, ...]
    invalid: tuple[Problem, ...]  # one for each rule that can't be served
    unresolved: tuple[Problem, ...]
    tls_targets: frozenset[Key] = frozenset()  # of the BackendTLSPolicies that backendRefs can't be resolved for
    excess: str | None = None  # why their regular expressions are too much

    @property
    def rejection(self) -> Problem | None:
        """Why the route as a whole can't be accepted: none of its rules can be served."""
        return summary(self.invalid) if len(self.invalid) == len(self.rules) else None


def translate_rules(route: HTTPRoute, compiled: CompiledMatches, *, allow_external_name: bool, view: View) -> Rules:
    """Return the rules of a route and what is wrong with them."""
    rules: list[wire.Rule] = []
    invalid: list[Problem] = []
    unresolved: list[Problem] = []
    for number, (rule, its) in enumerate(zip(route.spec.rules, compiled.rules, strict=True)):
        backends = _Backends(route.metadata.namespace, allow_external_name=allow_external_name, view=view)
        translated, problem = _rule(rule, its.matches, its.faults, backends)
        rules.append(translated)
        unresolved.extend(backends.unresolved)
        if problem is not None:
            label = f"rule {number} ({rule.name})" if rule.name else f"rule {number}"
            invalid.append(Problem(problem.reason, f"{label}: {problem.message}"))
    tls_targets = frozenset(problem.target for problem in unresolved if isinstance(problem, TlsRequired))
    return Rules(tuple(rules), tuple(invalid), tuple(dict.fromkeys(unresolved)), tls_targets, compiled.excess)


def _rule(
    rule: RouteRule, matches: tuple[wire.Match, ...], faults: Sequence[Problem], backends: _Backends
) -> tuple[wire.Rule, Problem | None]:
    filters = translate_filters(rule.filters, matches)
    targets = backends.of(rule, matches)
    problems = [*faults, *filters.problems]
    timeouts, retry = translate_timeouts(rule.timeouts, problems), translate_retry(rule.retry, problems)
    problems += [*_unsupported(rule), *backends.problems]
    if filters.redirect is not None and rule.backend_refs:
        message = "RequestRedirect can't be combined with backendRefs; remove one of them"
        problems.append(Problem("IncompatibleFilters", message))
    if faults:
        return wire.Rule(name=rule.name, matches=matches, status=500, approximate=True), summary(problems)
    if problems:
        return _answering_500(wire.Rule(name=rule.name, matches=matches)), summary(problems)
    served = wire.Rule(
        name=rule.name,
        matches=matches,
        filters=filters.filters,
        redirect=filters.redirect,
        backends=targets,
        timeouts=timeouts,
        retry=retry,
        cors=filters.cors,
    )
    nothing = filters.redirect is None and not targets
    return _answering_500(served) if nothing else served, None


def _answering_500(rule: wire.Rule) -> wire.Rule:
    """Return a rule with valid matches that answers 500.

    ghost takes a regex of a rule with this status for what is left of an invalid one, and ranks it last:
    operators of earlier versions don't mark those. So a backend stands for the status.
    """
    if any(match.path.type == "regex" for match in rule.matches):
        return structs.replace(rule, backends=(wire.Backend(status=500),))
    return structs.replace(rule, status=500)


def _unsupported(rule: RouteRule) -> Sequence[Problem]:
    if rule.session_persistence is None:
        return ()
    return (Problem("UnsupportedValue", "sessionPersistence is not supported yet; remove it"),)


class _Backends:
    """The backendRefs of one rule: collects what can't be resolved, and what can't be carried out."""

    def __init__(self, namespace: str, *, allow_external_name: bool, view: View) -> None:
        self.unresolved: list[Problem] = []
        self.problems: list[Problem] = []
        self._namespace = namespace
        self._allow_external_name = allow_external_name
        self._view = view

    def of(self, rule: RouteRule, matches: Sequence[wire.Match]) -> tuple[wire.Backend, ...]:
        """Return the backends that have a share of the traffic."""
        targets = []
        for ref in rule.backend_refs:
            found = resolve(
                ref,
                route_namespace=self._namespace,
                allow_external_name=self._allow_external_name,
                view=self._view,
            )
            if isinstance(found, Problem):
                self.unresolved.append(found)
                found = wire.Backend(weight=ref.weight, status=500)
            filters = translate_backend_filters(ref.filters, matches)
            self.problems.extend(filters.problems)
            if ref.weight > 0:
                targets.append(_with_filters(found, filters.filters))
        return tuple(targets)


def _with_filters(backend: wire.Backend, filters: wire.Filters | None) -> wire.Backend:
    if filters is None or backend.service is None:
        return backend
    return structs.replace(backend, filters=filters)
