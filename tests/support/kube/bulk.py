"""Very many objects, quickly.

In:   documents.
Out:  the objects in the cluster: created by many requests at once, or put into etcd past the API
      server, as when a backup is restored: then thousands are there in a moment.
"""

import asyncio
import base64
import contextlib
import http.client
import json
import socket
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from cluster.apiserver.server import Cluster
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.limits import Limits

AT_ONCE = 32
Document = dict[str, Any]


def create_all(cluster: Cluster, documents: Iterable[Document]) -> None:
    """Create the objects through the API server, many at a time."""
    asyncio.run(_create_all(cluster, list(documents)))


async def _create_all(cluster: Cluster, documents: list[Document]) -> None:
    limits = Limits(per_second=1e6, burst=len(documents) + 1, in_flight=AT_ONCE)
    async with Client(cluster.connection(), user_agent="vgw-test", limits=limits) as client:
        await asyncio.gather(*(client.create(document, manager="kubectl") for document in documents))


def twins(stored: Document, names: Iterable[str]) -> Iterator[Document]:
    """Yield copies of a stored route, status included, each with a name and a host of its own."""
    for name in names:
        metadata = {**stored["metadata"], "name": name, "uid": str(uuid.uuid4())}
        del metadata["resourceVersion"]
        yield {**stored, "metadata": metadata, "spec": {**stored["spec"], "hostnames": [f"{name}.example.com"]}}


def restore(cluster: Cluster, plural: str, documents: Iterable[Document]) -> None:
    """Put objects of a CRD of the Gateway API into etcd as they are, each with a revision of its own."""
    link = http.client.HTTPConnection("localhost", timeout=30)
    link.sock = socket.socket(socket.AF_UNIX)
    link.sock.connect(str(cluster.directory / "etcd.sock"))
    with contextlib.closing(link):
        for document in documents:
            put = {"key": _key(plural, document), "value": _base64(json.dumps(document))}
            link.request("POST", "/v3/kv/put", json.dumps(put))
            answer = link.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()


def _key(plural: str, document: Document) -> str:
    metadata = document["metadata"]
    return _base64(f"/registry/gateway.networking.k8s.io/{plural}/{metadata['namespace']}/{metadata['name']}")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
