"""Ask ghost to invalidate objects, as the data plane does.

In:   targets, such as ``uri("tea.example", "/list")``.
Out:  how many objects each hit, or ghost's answer.
"""

import json
from typing import Any

from support.http.client import Answer
from support.varnish.ghost import ADMIN, GhostHarness

HOST = "tea.example"


def uri(target: str, host: str = HOST) -> dict[str, Any]:
    return {"uri": {"host": host, "target": target}}


def prefix(text: str, host: str = HOST) -> dict[str, Any]:
    return {"prefix": {"host": host, "prefix": text}}


def matching(pattern: str, host: str = HOST) -> dict[str, Any]:
    return {"matching": {"host": host, "pattern": pattern}}


def ask(
    ghost: GhostHarness, body: bytes, *, host: str = "localhost", page: str = "invalidate", **request: Any
) -> Answer:
    """Send a body, well formed or not."""
    path = f"/.varnish-ghost/{page}"
    return ghost.get(path, method="POST", socket=ADMIN, host=host, body=body, **request)


def invalidate(ghost: GhostHarness, *targets: dict[str, Any], mode: str = "hard", **fields: Any) -> list[int]:
    """Carry out and return the counts."""
    answer = ask(ghost, json.dumps({"mode": mode, "targets": targets, **fields}).encode())
    assert answer.status == 200, answer.body
    objects: list[int] = answer.json["objects"]
    return objects


def index(ghost: GhostHarness) -> dict[str, Any]:
    """Return what the index holds."""
    held: dict[str, Any] = ghost.counters()["index"]
    return held


def stored(ghost: GhostHarness, target: str, host: str = HOST, **fields: Any) -> list[dict[str, Any]]:
    """Return what is stored for a URI, where that is all of it."""
    answer = ask(ghost, json.dumps({"targets": [uri(target, host)], **fields}).encode(), page="inspect")
    assert (answer.status, answer.json["more"]) == (200, False), answer.body
    variants: list[dict[str, Any]] = answer.json["variants"]
    return variants
