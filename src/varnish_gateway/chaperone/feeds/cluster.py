"""A chaperone's configuration from a cluster.

In:   the Gateway's ConfigMap, by name: main.vcl, routing.json (shard 0) and, where there are
more shards, shards.json, which names them; EndpointSlices of the namespaces that routing names;
its Secret, by name, with certificates and the operator's token.
Out:  Changes for the data plane. Nothing is applied before VCL, routing and the first lists were read;
from then on the last good configuration stays, whatever happens to its sources.

The last good configuration is on disk and serves at once after a restart. What the API server reports
replaces it piece by piece, and pools keep their endpoints until their namespace was listed.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.api import EndpointSlice
from varnish_gateway.chaperone.feeds.listener_sockets import with_listeners
from varnish_gateway.chaperone.feeds.secret import SecretFeed
from varnish_gateway.chaperone.feeds.shards import ShardCache, check_fits, read_index, read_patches, read_shard
from varnish_gateway.chaperone.feeds.slices import SliceWatches
from varnish_gateway.chaperone.feeds.source import SourceState
from varnish_gateway.chaperone.last_good import LastGood
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.pending import PendingChanges
from varnish_gateway.dataplane.process.sockets import Sockets
from varnish_gateway.dataplane.process.workdir import LAST_GOOD_DIRECTORY
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.emit.names import FRESH, GENERATION, INDEX, MAIN_VCL, ROUTING, shard_map
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Tls, wire
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.runtime.backoff import Backoff
from varnish_gateway.runtime.prometheus import family

SHARDS_AT_ONCE = 16
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 60.0
AHEAD_SECONDS = 5.0
"""After which a shard that is newer than its index is read again."""
MOST_PROBLEMS = 5
CHECK_SECONDS = 1.0

log = logging.getLogger(__name__)


class _Metadata(Struct, frozen=True, rename="camel"):
    annotations: dict[str, str] = {}
    resource_version: str = ""


class GatewayMap(Struct, frozen=True):
    """The part of a ConfigMap that we read."""

    metadata: _Metadata
    data: dict[str, str] = {}


_decode_map = msgspec.json.Decoder(GatewayMap).decode


class ClusterFeed:
    """``run`` feeds the data plane until it is cancelled."""

    def __init__(self, settings: Settings, client: Client, data_plane: DataPlane) -> None:
        self._namespace, self._name = settings.namespace, settings.configmap_name
        self._client = client
        self._data_plane = data_plane
        self._last = LastGood(settings.work_dir / LAST_GOOD_DIRECTORY, f"{self._namespace}/{self._name}")
        data_plane.on_in_force(self._last.save)
        self._shards = ShardCache()
        self._desired_sockets = settings.sockets
        self._pending = PendingChanges()
        self._work = asyncio.Event()  # something is pending
        self._stale = asyncio.Event()  # the ConfigMap has to be read again
        self._observed: GatewayMap | None = None
        self._serving = False
        self._slots = asyncio.Semaphore(SHARDS_AT_ONCE)
        self._problems: tuple[str, ...] = ()
        self._away_since: datetime | None = None
        self._watches = SliceWatches(client, self._on_slices, self._on_listed)
        self._config = Reflector(
            client,
            RESOURCES["ConfigMap"],
            _decode_map,
            self._on_config_map,
            namespace=settings.namespace,
            name=self._name,
        )
        self._secret = SecretFeed(settings, client, data_plane.bus, self._on_tls) if settings.secret_name else None

    async def run(self) -> None:
        """Feed the data plane; a bug in any part ends all of it."""
        async with asyncio.TaskGroup() as tasks:
            self._watches.start(tasks)
            try:
                self._restore()
                tasks.create_task(self._config.run())
                if self._secret is not None:
                    tasks.create_task(self._secret.run())
                tasks.create_task(self._read_when_listed())
                tasks.create_task(self._watch_api_server())
                tasks.create_task(self._apply_forever(tasks))
                await self._configure_forever()
            finally:
                self._watches.close()

    @property
    def state(self) -> SourceState:
        """The state of the cluster as a source."""
        own = [
            (self._namespace, reflector.problem)
            for reflector in (self._config, self._secret)
            if reflector is not None and reflector.problem is not None
        ]
        troubles = [f"namespace {namespace}: {problem}" for namespace, problem in (*own, *self._watches.problems)]
        rejections = self._secret.rejections if self._secret is not None else ()
        return SourceState(self._config.synced.is_set(), self._problems + rejections, _few(troubles), self._away_since)

    @property
    def operator_token(self) -> str:
        """What the operator presents, "" until the Secret was read."""
        return self._secret.token if self._secret is not None else ""

    def metrics(self) -> Iterator[str]:
        """Return lines for /metrics."""
        away = 0.0 if self._away_since is None else (_now() - self._away_since).total_seconds()
        help_text = "How long the API server has not answered."
        yield from family("vgw_api_server_away_seconds", "gauge", help_text, [({}, away)])
        help_text = "Namespaces whose EndpointSlices are watched."
        yield from family("vgw_watched_namespaces", "gauge", help_text, [({}, len(self._watches))])
        yield from self._client.metrics.lines()

    # -- from disk ---------------------------------------------------------------------

    def _restore(self) -> None:
        """Serve the last good configuration, if there is one on disk."""
        if (saved := self._last.load()) is None:
            return
        try:
            shards = {
                number: read_shard(content, number, f"shard {number} on disk", self._namespace)
                for number, content in saved.routing.items()
            }
        except errors.BadDocument as error:
            log.warning("the last configuration on disk is not usable: %s", error)
            return
        self._shards = ShardCache(shards)
        self._serving = True
        self._data_plane.bus.publish(events.Restored(generation=saved.generation))
        self._watches.watch(self._shards.namespaces)
        self._add(
            Change(
                vcl=saved.vcl,
                routing=saved.routing,
                sockets=self._sockets(),
                remembered=saved.pools,
                tls=saved.tls,
                generation=saved.generation,
            )
        )

    # -- changes -----------------------------------------------------------------------

    def _add(self, change: Change) -> None:
        """Have a change applied together with all that are pending."""
        self._pending.add(change)
        self._work.set()

    def _sockets(self) -> Sockets | None:
        """Return the sockets that the listeners need, None where those are the same as before."""
        sockets = with_listeners(self._data_plane.settings.sockets, self._shards.listeners)
        if sockets == self._desired_sockets:
            return None
        self._desired_sockets = sockets
        return sockets

    def _on_config_map(self, changes: Changes[GatewayMap]) -> None:
        for observed in changes.values():
            self._observed = observed
        self._stale.set()

    def _on_tls(self, tls: Tls) -> None:
        self._add(Change(tls=tls))

    async def _read_when_listed(self) -> None:
        """Notice a ConfigMap that does not exist."""
        await self._config.synced.wait()
        self._stale.set()

    async def _watch_api_server(self) -> None:
        """Record since when the API server has not answered."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            away = self._config.unanswered
            if away and self._away_since is None:
                self._away_since = _now()
                self._data_plane.bus.publish(events.SourceLost(reason=self._config.problem or ""))
            elif not away and self._away_since is not None:
                absence, self._away_since = _now() - self._away_since, None
                self._data_plane.bus.publish(events.SourceBack(seconds=absence.total_seconds()))

    def _on_slices(self, changes: Changes[EndpointSlice]) -> None:
        self._add(Change(slices=changes))

    def _on_listed(self, namespace: str) -> None:
        self._add(Change(listed=frozenset({namespace})))

    # -- the ConfigMap -----------------------------------------------------------------

    async def _configure_forever(self) -> None:
        backoff, retry = Backoff(FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS, jitter=random.random), None
        while True:
            await self._stale.wait()
            self._stale.clear()
            if retry is not None:
                retry.cancel()
            self._publish(await self._configure(self._observed))
            later = asyncio.get_running_loop().call_later
            if self._problems:
                retry = later(backoff.next(), self._stale.set)
                continue
            backoff.reset()
            if self._shards.is_ahead:
                retry = later(AHEAD_SECONDS, self._stale.set)

    async def _configure(self, observed: GatewayMap | None) -> list[str]:
        """Have VCL, routing and generation of the ConfigMap applied together; return its problems."""
        if observed is None:
            return [f"ConfigMap {self._namespace}/{self._name} does not exist"]
        vcl = observed.data.get(MAIN_VCL) or None
        problems = [] if vcl is not None else [f"{self._source(MAIN_VCL)}: there is none yet"]
        self._pending.add(Change(vcl=vcl))
        problems += await self._update_routing(observed)
        if not problems:
            if self._secret is not None and self._desired_sockets.tls and not self._serving:
                await self._secret.until_read()
            self._pending.add(Change(generation=observed.metadata.annotations.get(GENERATION)))
            self._serving = True
        self._work.set()
        return problems

    async def _update_routing(self, observed: GatewayMap) -> list[str]:
        """Add routing to the pending changes as far as it is consistent; return the problems with the rest."""
        problems: list[str] = []
        try:
            index = self._read_own(observed)
            self._shards.patch(read_patches(observed.data.get(FRESH)), index, self._namespace)
            problems += await self._fetch(index, observed.metadata.resource_version)
            arriving = self._shards.new_namespaces(index)
        except errors.BadDocument as error:
            return [*problems, str(error)]
        self._watches.watch(self._shards.namespaces | arriving)
        await self._watches.until_listed(serving=self._serving)
        routing = self._shards.update(index)
        self._pending.add(Change(routing=routing, sockets=self._sockets() if 0 in routing else None))
        self._watches.watch(self._shards.namespaces)
        return problems

    def _read_own(self, observed: GatewayMap) -> wire.Index:
        """Read the index and shard 0 from the ConfigMap itself."""
        index = read_index(observed.data.get(INDEX), self._source(INDEX))
        if ROUTING not in observed.data:
            raise errors.BadDocument(f"{self._source(ROUTING)}: there is none yet")
        text = observed.data[ROUTING].encode()
        shard = self._shards.known(0, content_hash(text)) or read_shard(text, 0, self._source(ROUTING), self._namespace)
        check_fits(shard, index, self._source(ROUTING))
        self._shards.put(0, shard)
        return index

    async def _fetch(self, index: wire.Index, version: str) -> list[str]:
        """Fetch the shards that changed; return why some could not be fetched.

        The operator writes the index after the shards: what is as new as the index has them.
        """
        missing = self._shards.missing(index)
        answers = await asyncio.gather(*(self._fetch_shard(number, index, version) for number in missing))
        return [problem for problem in answers if problem is not None]

    async def _fetch_shard(self, number: int, index: wire.Index, version: str) -> str | None:
        source = self._source(ROUTING, number)
        try:
            async with self._slots:
                name, namespace = shard_map(self._name, number), self._namespace
                found = await self._client.get(
                    RESOURCES["ConfigMap"], name, namespace=namespace, not_older_than=version
                )
            text = _decode_map(found).data.get(ROUTING, "").encode()
            shard = read_shard(text, number, source, self._namespace)
            self._shards.put(number, shard)
            check_fits(shard, index, source)
        except errors.KubernetesError as error:
            return f"{source}: {error}"
        except errors.BadDocument as error:
            return str(error)
        return None

    def _source(self, key: str, shard: int = 0) -> str:
        return f"ConfigMap {self._namespace}/{shard_map(self._name, shard)}, {key}"

    # -- applying ----------------------------------------------------------------------

    async def _apply_forever(self, tasks: asyncio.TaskGroup) -> None:
        """Apply pending changes as one; changes that arrive meanwhile are applied next.

        Certificates and ports are applied separately: endpoints must not wait for the TLS terminator.
        """
        while True:
            await self._work.wait()
            self._work.clear()
            if not self._serving:
                continue
            change = self._pending.drain()
            if change.affects_terminator:
                tasks.create_task(self._data_plane.apply(Change(tls=change.tls, sockets=change.sockets)))
            await self._data_plane.apply(msgspec.structs.replace(change, tls=None, sockets=None))

    def _publish(self, problems: Iterable[str]) -> None:
        """Record the problems of the configuration in the cluster; publish them if they changed."""
        before, self._problems = self._problems, _few(problems)
        if self._problems and self._problems != before:
            self._data_plane.bus.publish(events.SourceProblems(problems=self._problems))


def _few(problems: Iterable[str]) -> tuple[str, ...]:
    """Return the first problems, and how many more there are."""
    found = list(problems)
    rest = len(found) - MOST_PROBLEMS
    return (*found[:MOST_PROBLEMS], f"and {rest} more") if rest > 0 else tuple(found)


def _now() -> datetime:
    return datetime.now(UTC)
