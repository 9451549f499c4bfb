"""Requests to the API server.

In:   objects as documents.
Out:  the API server's responses as bytes; the caller decodes only what it needs.
Promises: a missing response and an error response raise the errors of ``errors.py``, and so does a
response of an unexpected content type: it comes from a proxy, not from the API server. Limits apply to
all requests of a client together. The client retries idempotent requests a few times before it raises
an error. It calls ``may_write`` right before it sends a write, also before each retry.
"""

import asyncio
import contextlib
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import msgspec
from yarl import URL

from varnish_gateway import errors
from varnish_gateway.kube.answers import refusal
from varnish_gateway.kube.connection import Connection
from varnish_gateway.kube.credentials import JSON, Credentials
from varnish_gateway.kube.limits import Limits, RequestBackoff, Turnstile
from varnish_gateway.kube.metrics import Metrics
from varnish_gateway.kube.resources import RESOURCES, Resource

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_CONNECT_SECONDS = 5.0
_LONGEST_SECONDS = 10.0
_BEGIN_SECONDS = 30.0
"""For the head of a watch, which an API server sends at once."""
_BROKEN = (aiohttp.ClientError, OSError, TimeoutError)
_TLS_LINGERS = sys.version_info < (3, 12, 8) or (3, 13, 0) <= sys.version_info < (3, 13, 1)
"""These Pythons wait for a peer's good-bye without end; aiohttp can cut it short, and warns if that is not needed."""
_LIVENESS = (
    (socket.TCP_KEEPIDLE, 15),
    (socket.TCP_KEEPINTVL, 5),
    (socket.TCP_KEEPCNT, 3),
    (socket.TCP_USER_TIMEOUT, 30_000),
)

Document = Mapping[str, Any]
_encode = msgspec.json.encode


class Request(NamedTuple):
    """What is sent, and what metrics call it."""

    method: str
    verb: str
    kind: str
    path: str
    body: bytes | None = None
    content_type: str = ""
    accept: str = JSON


class Target(NamedTuple):
    """What a request is about."""

    resource: Resource
    name: str
    namespace: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, document: Document, subresource: str = "") -> "Target":
        """Return what a document is about."""
        metadata, kind = document["metadata"], document["kind"]
        resource = RESOURCES[kind]
        if document["apiVersion"] != resource.api_version:
            resource = resource._replace(version=str(document["apiVersion"]).rpartition("/")[2])
        return cls(resource, metadata["name"], metadata.get("namespace", ""), subresource)

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace, self.name, self.subresource)


class Client:
    """One pool of connections to one API server. Use it as an async context manager."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._connection = connection
        self._credentials = Credentials(connection, user_agent)
        self._limits = limits or Limits()
        self._turnstile = Turnstile(self._limits)
        self._may_write = may_write
        self._timeout = aiohttp.ClientTimeout(total=self._limits.request_seconds, sock_connect=_CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=self._connection.ssl or True,
                limit=0,
                keepalive_timeout=60,
                socket_factory=_socket,
                enable_cleanup_closed=_TLS_LINGERS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),
            read_bufsize=1 << 18,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.close()
        await asyncio.sleep(0)  # connections that were cut off close their sockets one turn later

    # -- objects ----------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, *, namespace: str = "", not_older_than: str = "") -> bytes:
        """Return an object as JSON.

        With a resource version the API server answers from its own memory once that is as new, without etcd.
        """
        query = f"?resourceVersion={not_older_than}" if not_older_than else ""
        return await self.read(resource.path(namespace, name) + query, kind=resource.kind)

    async def apply(  # noqa: PLR0913 - options of the API server, by name
        self,
        document: Document,
        *,
        manager: str,
        subresource: str = "",
        force: bool = False,
        dry_run: bool = False,
        metadata_only: bool = False,
    ) -> bytes:
        """Server-side apply; the answer can be had without what was sent."""
        about = Target.of(document, subresource)
        path = f"{about.path}?fieldManager={manager}&force={'true' if force else 'false'}"
        if dry_run:
            path += "&dryRun=All"
        accept = METADATA if metadata_only else JSON
        request = Request("PATCH", "apply", about.resource.kind, path, _encode(document), APPLY, accept)
        return await self._repeated(request)

    async def patch(  # noqa: PLR0913 - options of the API server, by name
        self,
        resource: Resource,
        name: str,
        document: Document,
        *,
        manager: str,
        namespace: str = "",
        subresource: str = "",
    ) -> bytes:
        """JSON merge patch; a metadata.resourceVersion inside makes it an optimistic lock."""
        path = f"{resource.path(namespace, name, subresource)}?fieldManager={manager}"
        return await self._repeated(Request("PATCH", "patch", resource.kind, path, _encode(document), MERGE))

    async def create(self, document: Document, *, manager: str) -> bytes:
        """Create an object; raise Conflict if it exists. Retried only if the API server was too busy to handle it."""
        about = Target.of(document)
        path = f"{about.resource.path(about.namespace)}?fieldManager={manager}"
        return await self._repeated(Request("POST", "create", about.resource.kind, path, _encode(document), JSON))

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", version: str = ""
    ) -> None:
        """Delete an object, and then the objects that it owns.

        With uid: only that object, not a successor of the same name. With version: only if it is unchanged.
        """
        conditions = {"uid": uid, "resourceVersion": version}
        options = {"propagationPolicy": "Background", "preconditions": {k: v for k, v in conditions.items() if v}}
        path = resource.path(namespace, name)
        with contextlib.suppress(errors.NotFound):
            await self._repeated(Request("DELETE", "delete", resource.kind, path, _encode(options), JSON))

    # -- anything ---------------------------------------------------------------------------

    async def read(self, path: str, *, kind: str = "", verb: str = "get", accept: str = JSON) -> bytes:
        """GET a path with its query."""
        return await self._repeated(Request("GET", verb, kind, path, accept=accept))

    async def lines(self, path: str, *, silence: float) -> AsyncGenerator[list[bytes], None]:
        """Watch: yield an empty list when the watch begins, then the complete lines of each chunk.

        Raises Unreachable if the watch does not begin, breaks or stays silent.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence)
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                begun = await self._open.get(self._url(path), headers=self._credentials.headers(), timeout=timeout)
            async with begun as answer:
                if answer.status == 401:
                    self._credentials.forget()
                if answer.status != 200:
                    raise refusal(answer.status, await answer.read(), answer.headers)
                try:
                    yield []
                    rest = b""
                    async for chunk in answer.content.iter_any():
                        *lines, rest = (rest + chunk).split(b"\n")
                        if lines:
                            yield lines
                finally:
                    _hang_up(answer)
        except _BROKEN as error:
            raise errors.Unreachable(f"the watch broke: {_reason(error)}") from error

    # -- inside -----------------------------------------------------------------------------

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("a client has to be entered before it is used")
        return self._session

    def _url(self, path: str) -> URL:
        return URL(self._connection.server + path, encoded=True)

    async def _repeated(self, request: Request) -> bytes:
        """Send until there is an answer to keep, within the bound."""
        backoff = RequestBackoff()
        attempts = self._limits.attempts
        while True:
            try:
                return await self._once(request)
            except errors.KubernetesError as error:
                attempts -= 1
                delay = _retry_delay(error, request.verb, backoff)
                if delay is None or attempts == 0:
                    raise
                self.metrics.retries[request.kind] += 1
            await asyncio.sleep(delay)

    async def _once(self, request: Request) -> bytes:
        """Send when it is our turn, if we still may then."""
        throttled = await self._turnstile.enter()
        self.metrics.throttled_seconds += throttled
        try:
            if request.body is not None and self._may_write is not None and not self._may_write():
                raise errors.NotLeading(f"{request.verb} of {request.kind} is not sent: the lease is lost")
            return await self._answer(request)
        finally:
            self._turnstile.leave()

    async def _answer(self, request: Request) -> bytes:
        """Send; return the answer, or raise what it means."""
        began, status = time.monotonic(), 0
        try:
            async with self._send(request) as answer:
                content = await answer.read()
                status = answer.status
            if status < 300:
                _check_type(answer, content, request.accept)
                return content
            if status == 401:
                self._credentials.forget()
            raise refusal(status, content, answer.headers)
        except _BROKEN as error:
            raise errors.Unreachable(f"no answer from {self._connection.server}: {_reason(error)}") from error
        finally:
            self.metrics.answered(request.verb, request.kind, status, time.monotonic() - began)

    def _send(self, request: Request) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._open.request(
            request.method,
            self._url(request.path),
            data=request.body,
            headers=self._credentials.headers(request.content_type, request.accept),
            timeout=self._timeout,
            allow_redirects=False,
        )


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket that detects a silently vanished peer within half a minute."""
    made = socket.socket(*address[:3])
    for option, value in _LIVENESS:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return made


def _check_type(answer: aiohttp.ClientResponse, content: bytes, accepted: str) -> None:
    """Raise an error unless the response has the requested content type."""
    given = answer.headers.get("Content-Type", "")
    if not given.startswith(accepted.partition(";")[0]):
        beginning = content[:200].decode(errors="replace").strip()
        raise errors.ApiError(
            f"the answer is {given or 'of no type'}, not {accepted}: {beginning}", status=answer.status
        )


def _retry_delay(error: errors.KubernetesError, verb: str, backoff: RequestBackoff) -> float | None:
    """Return when to try again, or None for never. A creation that may have happened is not repeated."""
    wish = error.retry_after if isinstance(error, errors.ApiError) else 0.0
    if wish > _LONGEST_SECONDS:
        return None  # the caller has better things to do meanwhile
    if isinstance(error, errors.Throttled):
        return backoff.next(asked=wish)
    if isinstance(error, errors.Forbidden) and error.status == 401:
        return None if backoff.failures else backoff.next()  # once, with the token as it is in the file now
    lost = isinstance(error, errors.Unreachable)
    broken = isinstance(error, errors.ApiError) and error.status >= 500
    return backoff.next(asked=wish) if verb != "create" and (lost or broken) else None


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """End a watch at once: a farewell by TLS would wait for the other side."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__
