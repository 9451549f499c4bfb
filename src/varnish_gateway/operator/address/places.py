"""How many requests the addresses of Gateways hold, for each namespace and in all.

In:   the namespaces of requests with a valid token; time as an argument.
Out:  whether a further one is taken, and its place until it is answered.
Pure. A request counts from its head on, also while it waits, and all Gateways and tokens of a namespace
count together: a tenant makes as many of both as it likes.
"""

import contextlib
from collections import Counter, OrderedDict
from collections.abc import Iterator

from varnish_gateway.kube.limits import Bucket

OF_NAMESPACE = 64
IN_ALL = 256
PER_SECOND = 20
"""Of a namespace, after OF_NAMESPACE at once. To read a document takes time of the loop that reconciles."""
MOST_REMEMBERED = 1024
"""Namespaces whose rate is known. One that is forgotten had none for long, or shares the operator with many."""


class Places:
    def __init__(self) -> None:
        self._present: Counter[str] = Counter()
        self._rates: OrderedDict[str, Bucket] = OrderedDict()

    def admits(self, namespace: str, now: float) -> bool:
        """Return whether there is a place; it counts for the namespace's rate if so."""
        if self._present[namespace] >= OF_NAMESPACE or self._present.total() >= IN_ALL:
            return False
        rate = self._rates.pop(namespace, None) or Bucket(PER_SECOND, OF_NAMESPACE)
        self._rates[namespace] = rate
        if len(self._rates) > MOST_REMEMBERED:
            self._rates.popitem(last=False)
        return rate.allows(now)

    @contextlib.contextmanager
    def held(self, namespace: str) -> Iterator[None]:
        """Hold a place."""
        self._present[namespace] += 1
        try:
            yield
        finally:
            self._present[namespace] -= 1
            if not self._present[namespace]:
                del self._present[namespace]
