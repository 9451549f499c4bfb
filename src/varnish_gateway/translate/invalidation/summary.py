"""The status of an invalidation in words, within a size that the API server stores.

In:   the phase with its reason, and the results of pods.
Out:  conditions; as many results as there is room for, those of pods that did not confirm first.
Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import UNSET, Struct, structs

from varnish_gateway import ir
from varnish_gateway.translate.invalidation.request import RequestFault

MOST_PODS = 200
PATHS_BYTES = 100_000
"""With more the results of single paths are left out: each pod has all of them."""
PATH_BYTES = 60
"""Of the result of a path, beside the path."""


class Outline(Struct, frozen=True):
    """The phase, and the condition Complete. ``fault`` is why the operator or a pod does not accept the spec."""

    phase: Literal["Pending", "InProgress", "Complete", "Failed"]
    complete: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    fault: RequestFault | None = None
    restriction: str = ""


def conditions(outline: Outline, generation: int) -> tuple[ir.Condition, ...]:
    """Return Accepted, Complete, and Restricted where the namespace of an invalidation restricts it."""
    if outline.fault is not None:
        accepted = ir.Condition("Accepted", "False", outline.fault.reason, outline.fault.message, generation)
    elif outline.phase == "Pending":
        accepted = ir.Condition("Accepted", "Unknown", "Pending", "", generation)
    else:
        accepted = ir.Condition("Accepted", "True", "Accepted", "", generation)
    reason, message = ("NotAccepted", "") if outline.fault is not None else (outline.reason, outline.message)
    complete = ir.Condition("Complete", outline.complete, reason, message, generation)
    if not outline.restriction:
        return accepted, complete
    return accepted, complete, ir.Condition("Restricted", "True", "OtherNamespace", outline.restriction, generation)


def without_paths(results: Iterable[ir.PodResult], targets: Sequence[str]) -> tuple[ir.PodResult, ...]:
    """Return the results to store; those of paths only where all fit."""
    found = sorted(results, key=lambda one: (one.success, one.pod_name))[:MOST_PODS]
    size = sum(len(target.encode()) + PATH_BYTES for target in targets) * len(found)
    if size <= PATHS_BYTES:
        return tuple(found)
    return tuple(structs.replace(one, path_results=UNSET) for one in found)
