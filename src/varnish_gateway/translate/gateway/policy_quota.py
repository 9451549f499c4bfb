"""Which listeners of a Gateway can carry their cache policies.

In:   the served listeners of a Gateway with their policies, its own first, then those of ListenerSets by precedence.
Out:  the listeners, with policies off that don't fit; for each policy where that is, and why.

Every listener carries its own copy, and all travel in one object. The Gateway's own listeners come first. What they
leave is for the namespaces of the ListenerSets, whose listeners also carry the Gateway's policy. All have the same
quota, which is halved until all fit: the namespaces that take the most give way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, json, structs

from varnish_gateway.ir import wire
from varnish_gateway.translate.conditions import SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NAMESPACES = 4
"""So many namespaces can use up what the Gateway's own listeners leave, and no fewer."""
OFF = wire.CachePolicy(off=True)
"""What remains of a policy that doesn't fit. The quota of listeners has room for it on each of them."""
OWN = ""
"""Stands for the namespace of the Gateway's own listeners."""

_encode = json.Encoder().encode


class PolicyExcess(Struct, frozen=True):
    """``listeners`` are the first ones on which a policy is off. ``is_everywhere``: it is in force on no other one."""

    listeners: tuple[str, ...]
    is_everywhere: bool
    message: str


def within_quota(
    limit: int | None, listeners: tuple[wire.Listener, ...]
) -> tuple[tuple[wire.Listener, ...], Mapping[str, PolicyExcess]]:
    """Return the listeners, and the excess of each policy by its name."""
    sizes = {one.name: len(_encode(one.cache)) for one in listeners if one.cache is not None}
    if limit is None or not sizes:
        return listeners, {}
    accounts: dict[str, list[str]] = {OWN: []}
    for one in listeners:
        if one.cache is not None:
            accounts.setdefault(one.listener_set[0] if one.listener_set else OWN, []).append(one.name)
    carried = set(_fitting(accounts.pop(OWN), sizes, limit))
    left = limit - sum(sizes[name] for name in carried)
    quota = _quota([sum(sizes[name] for name in names) for names in accounts.values()], left)
    for names in accounts.values():
        carried.update(_fitting(names, sizes, quota))
    off = sizes.keys() - carried
    found = tuple(structs.replace(one, cache=OFF) if one.name in off else one for one in listeners)
    return found, _excess([one for one in listeners if one.name in off], found, limit, quota)


def _fitting(names: Iterable[str], sizes: Mapping[str, int], quota: int) -> Iterator[str]:
    """Return the listeners whose policies fit, in order; one that doesn't fit takes nothing from those after it."""
    for name in names:
        if sizes[name] <= quota:
            quota -= sizes[name]
            yield name


def _quota(demands: Sequence[int], left: int) -> int:
    """Return the quota with which all namespaces fit."""
    quota = left // NAMESPACES
    while sum(min(demand, quota) for demand in demands) > left:
        quota //= 2
    return quota


def _excess(
    off: Iterable[wire.Listener], found: Iterable[wire.Listener], limit: int, quota: int
) -> Mapping[str, PolicyExcess]:
    """Return what to tell the owners of policies. One that is off for another reason has a fault that says so."""
    in_force = {one.cache.name for one in found if one.cache is not None}
    by_policy: dict[str, list[wire.Listener]] = {}
    for one in off:
        if one.cache is not None and not one.cache.off:
            by_policy.setdefault(one.cache.name, []).append(one)
    return {
        name: PolicyExcess(
            tuple(one.name for one in of_policy[: SHOWN + 1]),
            name not in in_force,
            _message(of_policy[0], limit, quota),
        )
        for name, of_policy in by_policy.items()
    }


def _message(listener: wire.Listener, limit: int, quota: int) -> str:
    advice = "shorten them, or use fewer listeners"
    if listener.listener_set is None:
        return f"the cache policies of its own listeners have more than the {limit:,} bytes of a Gateway; {advice}"
    return (
        "the cache policies of the listeners of all ListenerSets in a namespace have more than the "
        f"{quota:,} bytes that a namespace has now on the Gateway; {advice}"
    )
