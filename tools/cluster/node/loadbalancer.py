"""Give Services of type LoadBalancer an address: ``python -m cluster.node.loadbalancer``, on the node.

In:   all Services, watched.
Out:  their status.loadBalancer, out of a pool. kube-proxy takes what is sent to it from there.
A Service that asks for an address (loadBalancerIP) gets that one or none.
"""

import contextlib
import http.client
import ipaddress
import json
import sys
import time
from collections.abc import Iterable

from cluster import layout
from cluster.api import Api, Document
from cluster.errors import Refused

PATH = "/api/v1/services"
POOL = tuple(str(address) for address in ipaddress.ip_network(layout.LOAD_BALANCERS).hosts())
FREE = POOL[: POOL.index(layout.USABLE_ADDRESS)]
"""What is given to those who ask for no address in particular."""


class Balancer:
    """Which Service has which address. No I/O: the answers to a Service are patches, or None."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def learn(self, services: Iterable[Document]) -> None:
        """Take note of every address that Services have."""
        held = {service["metadata"]["uid"]: _address(service) for service in services}
        self._taken = {uid: address for uid, address in held.items() if address}

    def forget(self, service: Document) -> None:
        self._taken.pop(service["metadata"]["uid"], None)

    def answer(self, service: Document) -> Document | None:
        """Return what a Service's status has to become, None where it is right."""
        uid, spec = service["metadata"]["uid"], service["spec"]
        has = _address(service)
        if not _is_ours(service):
            self.forget(service)
            return _status(None) if has else None
        desired = spec.get("loadBalancerIP") or has or self._next()
        given = desired if desired in POOL and desired not in self._others(uid) else None
        if given:
            self._taken[uid] = given
        else:
            self.forget(service)
        return None if has == given else _status(given)

    def _others(self, uid: str) -> set[str]:
        return {address for who, address in self._taken.items() if who != uid}

    def _next(self) -> str | None:
        taken = set(self._taken.values())
        return next((address for address in FREE if address not in taken), None)


def _is_ours(service: Document) -> bool:
    spec = service["spec"]
    gone = service["metadata"].get("deletionTimestamp")
    return spec.get("type") == "LoadBalancer" and not spec.get("loadBalancerClass") and not gone


def _address(service: Document) -> str | None:
    ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress") or [{}]
    return ingress[0].get("ip")


def _status(address: str | None) -> Document:
    ingress = [{"ip": address, "ipMode": "VIP"}] if address else None
    return {"status": {"loadBalancer": {"ingress": ingress}}}


def serve(api: Api, balancer: Balancer) -> None:
    """Answer Services until the watch ends, beginning with those that exist."""
    listed = api.get(PATH)
    balancer.learn(listed["items"])
    for service in listed["items"]:
        _answer(api, balancer, service)
    for change in api.watch(PATH, listed["metadata"]["resourceVersion"]):
        if change["type"] == "ERROR":
            return
        if change["type"] == "DELETED":
            balancer.forget(change["object"])
        else:
            _answer(api, balancer, change["object"])


def _answer(api: Api, balancer: Balancer, service: Document) -> None:
    if patch := balancer.answer(service):
        metadata = service["metadata"]
        print(metadata["namespace"], metadata["name"], json.dumps(patch), flush=True)
        with contextlib.suppress(Refused):  # it went while we answered
            api.merge(f"/api/v1/namespaces/{metadata['namespace']}/services/{metadata['name']}/status", patch)


def main() -> int:
    api = Api()
    while True:
        try:
            serve(api, Balancer())
        except (OSError, http.client.HTTPException, Refused, ValueError) as error:
            print(f"again in a second: {error}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
