"""Measure the time from a file's rename to the first response under the changed cache policy, beside that of a route.

Half of 5,000 routes have a policy of their own. A change of a policy turns Cache-Status on or off, which shows in hits
as well; a change of a route leads to another origin, and takes a route without a policy. Both alternate.
"""

import contextlib
import http.client
import statistics
from pathlib import Path

import lab
from fleet import Fleet

MANY = 5_000
POLICY = """\
apiVersion: gateway.varnish-software.com/v1alpha1
kind: VarnishCachePolicy
metadata:
  name: policy-{number}
spec:
  targetRef:
    group: gateway.networking.k8s.io
    kind: HTTPRoute
    name: route-{number}
  defaultTTL: 1h
  cacheStatus: '{status}'
"""


class CachingFleet(Fleet):
    """A fleet in which the routes with even numbers have a policy."""

    def __init__(self, directory: Path, routes: int, origins: dict[str, int]) -> None:
        super().__init__(directory, routes, origins)
        for number in range(0, routes, 2):
            (self.directory / f"policy-{number}.yaml").write_text(POLICY.format(number=number, status="Off"))

    def announce(self, number: int, status: str) -> float:
        """Turn the policy's Cache-Status on or off; return the seconds until responses show it."""
        text = POLICY.format(number=number, status=status)
        seconds, seen = self.replace(f"policy-{number}.yaml", text, lambda connection: _status(connection, number))
        if seen != status:
            raise RuntimeError(f"Cache-Status of route {number} is {seen} instead of {status}")
        return seconds


def _status(connection: http.client.HTTPConnection, number: int) -> str:
    """Return whether a response has Cache-Status."""
    connection.request("GET", "/", headers={"Host": f"h{number}.example.com"})
    answer = connection.getresponse()
    answer.read()
    return "Off" if answer.getheader("Cache-Status") is None else "On"


def measure(changes: int) -> dict[str, object]:
    """Return medians in milliseconds and their ratio."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(lab.open_directory())
        origins = {name: stack.enter_context(lab.origin(directory / name, body=name)) for name in ("blue", "green")}
        fleet = CachingFleet(directory / "fleet", MANY, origins)
        stack.enter_context(fleet.running())
        policies, routes = [], []
        for turn in range(changes):
            number = turn * 486 % MANY
            policies.append(fleet.announce(number, "On"))
            routes.append(fleet.switch(number + 1, "green"))
    of_policies, of_routes = (statistics.median(seconds) * 1000 for seconds in (policies, routes))
    return {
        "median ms of a policy": round(of_policies, 2),
        "median ms of a route": round(of_routes, 2),
        "policy / route": round(of_policies / of_routes, 2),
    }
