"""What goes wrong with a simulated API server and its nodes.

In:   a source of chance for each request.
Out:  refusals as ``errors``: 429, 5xx, rejections by admission; the pods of lost nodes.
"""

import random

from varnish_gateway import errors
from varnish_gateway.api import Key


class Faults:
    """``storm`` is the share of requests that an overloaded API server refuses.

    ``denied`` are the kinds, by namespace, that admission rejects, with the status.
    ``lost`` are pods that don't answer.
    """

    def __init__(self) -> None:
        self.storm = 0.0
        self.denied: dict[tuple[str, str], int] = {}
        self.lost: set[str] = set()

    def clear(self) -> None:
        """End everything but lost nodes, which stay lost."""
        self.storm = 0.0
        self.denied.clear()

    def refusal(self, chance: random.Random) -> errors.ApiError | None:
        """Return why a request is refused, None if it isn't."""
        if not self.storm or chance.random() >= self.storm:
            return None
        kinds = (
            errors.Throttled("too many requests", retry_after=chance.random() * 3),
            errors.ApiError("etcdserver: leader changed", status=500),
            errors.ApiError("the server is currently unable to handle the request", status=503, retry_after=1),
        )
        return chance.choice(kinds)

    def check_admitted(self, key: Key) -> None:
        """Raise where admission rejects a write."""
        status = self.denied.get((key.kind, key.namespace))
        if status == 403:
            raise errors.Forbidden(f"{key}: a policy denies the request", status=403)
        if status == 422:
            raise errors.Invalid(f"{key}: a webhook finds the object invalid", status=422)
