"""The tokens of users who may invalidate in a cluster, from the Secrets that their Gateways name.

In:   a Gateway and the name of a Secret in its namespace.
Out:  the tokens in it; None where the Secret was never read and can't be now.

A Secret is read by its name when a request needs it, and again after a moment; the operator watches none of these,
so they cost nothing between requests. Where the API server does not answer, or the document is wrong, the tokens from
before count. A Secret that is deleted has none.
"""

import asyncio
import base64
import binascii
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct, field

from varnish_gateway import errors
from varnish_gateway.api import Key, Secret
from varnish_gateway.api.gateway_networking import INVALIDATION_TOKENS
from varnish_gateway.dataplane.invalidation.token_set import NONE, TokenSet
from varnish_gateway.kube.resources import RESOURCES, Resource

KEY = "tokens.json"
"""In the Secret: the document of tokens."""
LARGEST = 64 << 10
"""Bytes of a document: a user must not fill the operator's memory with tokens."""
FRESH_SECONDS = 1.0
"""For so long the tokens count without another look."""
READ_SECONDS = 5.0
AT_ONCE = 4
"""Secrets that are read at a time: requests without a valid token must not keep reconciling from the API server."""
MOST_KNOWN = 500
"""Secrets whose tokens are kept; the one that was not used for the longest time goes first."""


class SecretReader(Protocol):
    """The client of the API server."""

    async def get(self, resource: Resource, name: str, *, namespace: str = "") -> bytes: ...


class _Metadata(Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Data(Struct):
    tokens: str | None = field(default=None, name=KEY)


class _Secret(Struct):
    metadata: _Metadata
    data: _Data = field(default_factory=_Data)


_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_decode = msgspec.json.Decoder(_Secret).decode


class _NoTokens(Exception):
    """The Secret has no document of tokens: who owns it takes them back."""


class _Known:
    """What a Secret had when it was read. ``tokens`` are None before that."""

    def __init__(self) -> None:
        self.tokens: TokenSet | None = None
        self.version = ""
        self.read_at = float("-inf")
        self.problem = ""
        self.reading = asyncio.Lock()


class SecretTokens:
    """``report`` is called when a Secret has another problem than before: with its Gateway and what to do."""

    def __init__(self, client: SecretReader, report: Callable[[Key, str], None]) -> None:
        self._client = client
        self._report = report
        self._known: OrderedDict[Key, _Known] = OrderedDict()
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def of(self, gateway: Key, name: str) -> TokenSet | None:
        """Return the tokens in a Secret of the Gateway's namespace."""
        secret = Key(Secret.kind, gateway.namespace, name)
        known = self._known.setdefault(secret, _Known())
        self._known.move_to_end(secret)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        async with known.reading:
            if time.monotonic() - known.read_at >= FRESH_SECONDS:
                await self._refresh(gateway, secret, known)
        return known.tokens

    async def _refresh(self, gateway: Key, secret: Key, known: _Known) -> None:
        problem = ""
        try:
            _update(known, await self._read(secret))
        except errors.BadSettings as error:
            known.tokens = NONE
            problem = str(error)
        except errors.NotFound:
            known.tokens, known.version = NONE, ""
            problem = f"{secret} does not exist, so no client may invalidate; create it, or remove the annotation"
        except _NoTokens:
            known.tokens = NONE
            problem = f"{secret} has no key {KEY}, so no client may invalidate; add a document of tokens"
        except errors.BadDocument as error:
            known.tokens = NONE if known.tokens is None else known.tokens
            problem = f"{secret}, key {KEY}: {error}; the tokens from before count"
        except (errors.KubernetesError, TimeoutError, msgspec.MsgspecError, RecursionError) as error:
            problem = f"{secret} can't be read: {str(error) or 'no answer in time'}; the tokens from before count"
        finally:
            known.read_at = time.monotonic()
        if problem and problem != known.problem:
            self._report(gateway, problem)
        known.problem = problem

    async def _read(self, secret: Key) -> bytes:
        if _NAME.fullmatch(secret.name) is None:  # the API server checks no annotation, and it becomes part of a path
            raise errors.BadSettings(f"annotation {INVALIDATION_TOKENS}: write the name of a Secret of the namespace")
        async with asyncio.timeout(READ_SECONDS), self._at_once:
            return await self._client.get(RESOURCES[secret.kind], secret.name, namespace=secret.namespace)


def _update(known: _Known, text: bytes) -> None:
    """Apply what the API server has stored; raise BadDocument."""
    secret = _decode(text)
    version = f"{secret.metadata.uid} {secret.metadata.resource_version}"
    if version == known.version and not known.problem:
        return
    known.version = version
    if secret.data.tokens is None:
        raise _NoTokens
    try:
        content = base64.b64decode(secret.data.tokens, validate=True)
    except binascii.Error as error:
        raise errors.BadDocument("it is not in base64") from error
    if len(content) > LARGEST:
        raise errors.BadDocument(f"it has more than {LARGEST} bytes")
    known.tokens = TokenSet(content)
