"""Every write of the operator.

In:   documents, and a client that checks before each request whether this operator leads: a lost
      lease stops writing at once, whatever is queued.
Out:  the API server's answers.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from varnish_gateway import errors
from varnish_gateway.api import Key
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.resources import RESOURCES, Resource


class Writer:
    """``counts`` are the writes by kind and verb."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.counts: Counter[tuple[str, str]] = Counter()

    async def get(self, key: Key) -> bytes | None:
        """Return an object as it is stored now; None if it does not exist."""
        try:
            return await self._client.get(RESOURCES[key.kind], key.name, namespace=key.namespace)
        except errors.NotFound:
            return None

    async def apply(self, document: Mapping[str, Any], *, manager: str, metadata_only: bool = False) -> bytes:
        self.counts[document["kind"], "apply"] += 1
        return await self._client.apply(document, manager=manager, metadata_only=metadata_only)

    async def apply_status(self, document: Mapping[str, Any], *, manager: str) -> bytes:
        """Apply a status. We own these fields, so the apply overrides other managers."""
        self.counts[document["kind"], "status"] += 1
        return await self._client.apply(document, manager=manager, subresource="status", force=True)

    async def patch_status(self, resource: Resource, key: Key, document: Mapping[str, Any], *, manager: str) -> bytes:
        """Patch a status in a served version; the document's resourceVersion must be the stored one."""
        self.counts[key.kind, "status"] += 1
        return await self._client.patch(
            resource, key.name, document, namespace=key.namespace, subresource="status", manager=manager
        )

    async def delete(self, key: Key, uid: str, version: str) -> None:
        """Delete an object in the version we observed. Another operator may have adopted it since then."""
        self.counts[key.kind, "delete"] += 1
        resource = RESOURCES[key.kind]
        await self._client.delete(resource, key.name, namespace=key.namespace, uid=uid, version=version)
