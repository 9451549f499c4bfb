"""A policy kind is one registration: a layer that the translator runs with all others."""

from typing import ClassVar

from support.builders.objects import gateway, keyed, route, service
from varnish_gateway import api, ir
from varnish_gateway.api import Key
from varnish_gateway.api.meta import Metadata, Read
from varnish_gateway.translate import Translator
from varnish_gateway.translate.conditions import Problem, positive
from varnish_gateway.translate.incremental.claims import Claim
from varnish_gateway.translate.incremental.dependency import Derived, Table
from varnish_gateway.translate.incremental.view import View
from varnish_gateway.translate.layers import Layer
from varnish_gateway.translate.options import Options
from varnish_gateway.translate.precedence import precedence
from varnish_gateway.translate.translator import LAYERS

WEB = Key("Service", "default", "web")


class ToySpec(Read, frozen=True):
    service: str


class ToyPolicy(api.Object, frozen=True):
    """A policy that targets a Service of its namespace."""

    kind: ClassVar[str] = "ToyPolicy"
    spec: ToySpec


def policy(name: str, target: str = "web") -> ToyPolicy:
    return ToyPolicy(metadata=Metadata(name=name), spec=ToySpec(service=target))


def place(target: Key) -> Derived:
    return Derived("ToyPolicy of", target)


def validate(key: Key, _: Options, view: View) -> Key | None:
    found = view.find(ToyPolicy, key.namespace, key.name)
    return Key("Service", key.namespace, found.spec.service) if found else None


def resolve(key: Key, options: Options, view: View) -> ir.RouteStatus | None:
    target = view.get(TARGETS, key)
    if target is None:
        return None
    problem, winner = None, view.winner(place(target))
    if view.find(api.Service, target.namespace, target.name) is None:
        problem = Problem("TargetNotFound", f"{target} does not exist")
    elif winner is not None and winner.holder != key:
        problem = Problem("Conflicted", f"{winner.holder} has precedence")
    ref = ir.ParentRef("", target.kind, target.name)
    return ir.RouteStatus((ir.ParentStatus(ref, options.controller, (positive("Accepted", problem, 1),)),))


def claims(key: Key, target: Key) -> dict[Derived, Claim]:
    return {place(target): Claim(precedence(0, key), key)}


TARGETS: Table[Key] = Table("validated ToyPolicy")
STATUSES: Table[ir.RouteStatus] = Table("resolved ToyPolicy")
TOY = (
    Layer(table=TARGETS, kinds=("ToyPolicy",), compute=validate, claims=claims),
    Layer(table=STATUSES, kinds=("ToyPolicy",), compute=resolve, status=lambda status: status),
)


def started(*objects: api.Object) -> tuple[Translator, ir.Delta]:
    translator = Translator((*LAYERS, *TOY), assume_class=True)
    return translator, translator.update(keyed(*objects))


def reason(delta: ir.Delta, name: str) -> str:
    (parent,) = delta.statuses[Key("ToyPolicy", "default", name)].parents
    return parent.conditions[0].reason


def test_registered_policy_has_a_status():
    _, delta = started(gateway(), service(), route(), policy("a"))
    assert reason(delta, "a") == "Accepted"


def test_policy_is_recomputed_when_its_target_appears_and_disappears():
    translator, delta = started(gateway(), policy("a"))
    assert reason(delta, "a") == "TargetNotFound"
    delta = translator.update(keyed(service()))
    assert (reason(delta, "a"), list(delta.statuses)) == ("Accepted", [Key("ToyPolicy", "default", "a")])
    assert reason(translator.update({WEB: None}), "a") == "TargetNotFound"


def test_policy_is_not_recomputed_for_another_target():
    translator, _ = started(gateway(), service(), policy("a"))
    assert translator.update(keyed(service("other"))) == ir.Delta()


def test_first_of_two_policies_wins_and_the_second_succeeds_it():
    translator, delta = started(service(), policy("b"), policy("a"))
    assert (reason(delta, "a"), reason(delta, "b")) == ("Accepted", "Conflicted")
    delta = translator.update({Key("ToyPolicy", "default", "a"): None})
    assert reason(delta, "b") == "Accepted"
    assert delta.statuses[Key("ToyPolicy", "default", "a")] is None


def test_deleted_policy_leaves_nothing_behind():
    translator, _ = started(service(), policy("a"))
    assert set(translator.referenced("Service")) == {WEB}
    translator.update({Key("ToyPolicy", "default", "a"): None})
    assert set(translator.referenced("Service")) == set()
