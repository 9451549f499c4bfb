"""A chaperone's configuration from a cluster.

In:   the Gateway's ConfigMap, by name: main.vcl, routing.json (shard 0) and, where there are
more shards, shards.json, which names them; EndpointSlices of the namespaces that routing names;
its Secret, by name, with certificates.
Out:  Changes for the data plane. Nothing is applied before VCL, routing and the first lists
are there; from then on the last good configuration stays, whatever becomes of its sources.

What served last is on disk. It serves at once after a restart; what the API server says takes
over piece by piece, and pools keep their endpoints until those of their namespace are listed.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from varnish_gateway import errors
from varnish_gateway.api import EndpointSlice
from varnish_gateway.chaperone.feeds.pending import Pending
from varnish_gateway.chaperone.feeds.secret import SecretFeed
from varnish_gateway.chaperone.feeds.shards import Shelf, check_fits, read_index, read_patches, read_shard
from varnish_gateway.chaperone.feeds.slices import SliceWatches
from varnish_gateway.chaperone.feeds.source import SourceState
from varnish_gateway.chaperone.last_good import LastGood
from varnish_gateway.dataplane import events
from varnish_gateway.dataplane.change import Change
from varnish_gateway.dataplane.dataplane import DataPlane
from varnish_gateway.dataplane.settings import Settings
from varnish_gateway.emit.names import FRESH, GENERATION, INDEX, MAIN_VCL, ROUTING, shard_map
from varnish_gateway.emit.routing import content_hash
from varnish_gateway.ir import Tls, wire
from varnish_gateway.kube.client import Client
from varnish_gateway.kube.reflector import Changes, Reflector
from varnish_gateway.kube.resources import RESOURCES
from varnish_gateway.runtime.prometheus import family

SHARDS_AT_ONCE = 16
FIRST_RETRY_SECONDS = 0.1
LAST_RETRY_SECONDS = 5.0
AHEAD_SECONDS = 5.0
"""After which a shard that is ahead of its index is read again."""
TOLD_PROBLEMS = 5
CHECK_SECONDS = 1.0

log = logging.getLogger(__name__)


class _Metadata(Struct, frozen=True):
    annotations: dict[str, str] = {}


class GatewayMap(Struct, frozen=True):
    """A ConfigMap with what we read of it."""

    metadata: _Metadata
    data: dict[str, str] = {}


_decode_map = msgspec.json.Decoder(GatewayMap).decode


class ClusterFeed:
    """``run`` feeds the data plane until it is cancelled."""

    def __init__(self, settings: Settings, client: Client, data_plane: DataPlane) -> None:
        self._namespace, self._name = settings.namespace, settings.configmap_name
        self._client = client
        self._data_plane = data_plane
        self._last = LastGood(settings.work_dir / "last", f"{self._namespace}/{self._name}")
        data_plane.keep_with(self._last.save)
        self._shelf = Shelf()
        self._pending = Pending()
        self._work = asyncio.Event()  # there is something to apply
        self._news = asyncio.Event()  # the ConfigMap wants a look
        self._said: GatewayMap | None = None
        self._serving = False
        self._slots = asyncio.Semaphore(SHARDS_AT_ONCE)
        self._problems: tuple[str, ...] = ()
        self._away_since: datetime | None = None
        self._watches = SliceWatches(client, self._take_slices, self._take_listed)
        self._config = Reflector(
            client,
            RESOURCES["ConfigMap"],
            _decode_map,
            self._hear,
            namespace=settings.namespace,
            name=self._name,
        )
        self._secret = SecretFeed(settings, client, data_plane.bus, self._take_tls) if settings.secret_name else None

    async def run(self) -> None:
        """Feed the data plane; a bug of ours in any part ends all of it."""
        async with asyncio.TaskGroup() as tasks:
            self._watches.begin(tasks)
            try:
                self._restore()
                tasks.create_task(self._config.run())
                if self._secret is not None:
                    tasks.create_task(self._secret.run())
                tasks.create_task(self._look_when_listed())
                tasks.create_task(self._notice_absence())
                tasks.create_task(self._apply_forever(tasks))
                await self._configure_forever()
            finally:
                self._watches.close()

    @property
    def state(self) -> SourceState:
        """How the cluster stands as a source."""
        own = [
            (self._namespace, reflector.problem)
            for reflector in (self._config, self._secret)
            if reflector is not None and reflector.problem is not None
        ]
        troubles = [f"namespace {namespace}: {problem}" for namespace, problem in (*own, *self._watches.problems)]
        refused = self._secret.refused if self._secret is not None else ()
        return SourceState(self._config.synced.is_set(), self._problems + refused, _few(troubles), self._away_since)

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
        """Serve what served last, if it is there."""
        if (kept := self._last.load()) is None:
            return
        try:
            shards = {
                number: read_shard(content, number, f"shard {number} on disk", self._namespace)
                for number, content in kept.routing.items()
            }
        except errors.BadDocument as error:
            log.warning("the last configuration on disk is not usable: %s", error)
            return
        self._shelf = Shelf(shards)
        self._pending.vcl, self._pending.generation = kept.vcl, kept.generation
        self._pending.routing |= kept.routing
        self._pending.remembered |= kept.pools
        self._pending.tls = kept.tls
        self._serving = True
        self._data_plane.bus.publish(events.Restored(generation=kept.generation))
        self._watches.want(self._shelf.namespaces)
        self._work.set()

    # -- what comes in -----------------------------------------------------------------

    def _hear(self, changes: Changes[GatewayMap]) -> None:
        for said in changes.values():
            self._said = said
        self._news.set()

    def _take_tls(self, tls: Tls) -> None:
        self._pending.tls = tls
        self._work.set()

    async def _look_when_listed(self) -> None:
        """Look at a ConfigMap that is not there, too."""
        await self._config.synced.wait()
        self._news.set()

    async def _notice_absence(self) -> None:
        """Know since when the API server has not answered."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            away = self._config.unanswered
            if away and self._away_since is None:
                self._away_since = _now()
                self._data_plane.bus.publish(events.SourceLost(reason=self._config.problem or ""))
            elif not away and self._away_since is not None:
                absence, self._away_since = _now() - self._away_since, None
                self._data_plane.bus.publish(events.SourceBack(seconds=absence.total_seconds()))

    def _take_slices(self, changes: Changes[EndpointSlice]) -> None:
        self._pending.slices |= changes
        self._work.set()

    def _take_listed(self, namespace: str) -> None:
        self._pending.listed.add(namespace)
        self._work.set()

    # -- what the ConfigMap says -------------------------------------------------------

    async def _configure_forever(self) -> None:
        delay, retry = FIRST_RETRY_SECONDS, None
        while True:
            await self._news.wait()
            self._news.clear()
            if retry is not None:
                retry.cancel()
            self._tell(await self._configure(self._said))
            later = asyncio.get_running_loop().call_later
            if self._problems:
                retry = later(delay, self._news.set)
                delay = min(2 * delay, LAST_RETRY_SECONDS)
                continue
            delay = FIRST_RETRY_SECONDS
            if self._shelf.is_ahead:
                retry = later(AHEAD_SECONDS, self._news.set)

    async def _configure(self, said: GatewayMap | None) -> list[str]:
        """Take in what the ConfigMap says; return what stands against it."""
        if said is None:
            return [f"ConfigMap {self._namespace}/{self._name} does not exist"]
        problems = [] if said.data.get(MAIN_VCL) else [f"{self._source(MAIN_VCL)}: there is none yet"]
        self._pending.vcl = said.data.get(MAIN_VCL) or self._pending.vcl
        problems += await self._take_routing(said)
        if not problems:
            if self._secret is not None and self._data_plane.settings.sockets.tls and not self._serving:
                await self._secret.settle()
            self._pending.generation = said.metadata.annotations.get(GENERATION)
            self._serving = True
        self._work.set()
        return problems

    async def _take_routing(self, said: GatewayMap) -> list[str]:
        """Let routing serve as far as it fits together; return what stands against the rest."""
        problems: list[str] = []
        try:
            index = self._read_own(said)
            self._shelf.freshen(read_patches(said.data.get(FRESH)), index, self._namespace)
            problems += await self._fetch(index)
            arriving = self._shelf.arriving(index)
        except errors.BadDocument as error:
            return [*problems, str(error)]
        self._watches.want(self._shelf.namespaces | arriving)
        await self._watches.settle(serving=self._serving)
        self._pending.routing |= self._shelf.take(index)
        self._watches.want(self._shelf.namespaces)
        return problems

    def _read_own(self, said: GatewayMap) -> wire.Index:
        """Read what the ConfigMap itself holds of routing."""
        index = read_index(said.data.get(INDEX), self._source(INDEX))
        if ROUTING not in said.data:
            raise errors.BadDocument(f"{self._source(ROUTING)}: there is none yet")
        text = said.data[ROUTING].encode()
        shard = self._shelf.known(0, content_hash(text)) or read_shard(text, 0, self._source(ROUTING), self._namespace)
        check_fits(shard, index, self._source(ROUTING))
        self._shelf.put(0, shard)
        return index

    async def _fetch(self, index: wire.Index) -> list[str]:
        """Get the shards that changed; return why some could not be had."""
        answers = await asyncio.gather(*(self._fetch_shard(number, index) for number in self._shelf.wanting(index)))
        return [problem for problem in answers if problem is not None]

    async def _fetch_shard(self, number: int, index: wire.Index) -> str | None:
        source = self._source(ROUTING, number)
        try:
            async with self._slots:
                found = await self._client.get(
                    RESOURCES["ConfigMap"], shard_map(self._name, number), namespace=self._namespace
                )
            text = _decode_map(found).data.get(ROUTING, "").encode()
            shard = read_shard(text, number, source, self._namespace)
            self._shelf.put(number, shard)
            check_fits(shard, index, source)
        except errors.KubernetesError as error:
            return f"{source}: {error}"
        except errors.BadDocument as error:
            return str(error)
        return None

    def _source(self, key: str, shard: int = 0) -> str:
        return f"ConfigMap {self._namespace}/{shard_map(self._name, shard)}, {key}"

    # -- what goes out -----------------------------------------------------------------

    async def _apply_forever(self, tasks: asyncio.TaskGroup) -> None:
        """Apply what came in; whatever comes while a change is on its way is the next one.

        Certificates are on their way apart: HAProxy may take longer than endpoints can wait.
        """
        while True:
            await self._work.wait()
            self._work.clear()
            if not self._serving:
                continue
            change = self._pending.take()
            if change.tls is not None:
                tasks.create_task(self._data_plane.apply(Change(tls=change.tls)))
            await self._data_plane.apply(msgspec.structs.replace(change, tls=None))

    def _tell(self, problems: Iterable[str]) -> None:
        """Remember what stands against what the cluster says; publish it where it is news."""
        before, self._problems = self._problems, _few(problems)
        if self._problems and self._problems != before:
            self._data_plane.bus.publish(events.SourceProblems(problems=self._problems))


def _few(problems: Iterable[str]) -> tuple[str, ...]:
    """Return the first problems, and how many more there are."""
    told = list(problems)
    rest = len(told) - TOLD_PROBLEMS
    return (*told[:TOLD_PROBLEMS], f"and {rest} more") if rest > 0 else tuple(told)


def _now() -> datetime:
    return datetime.now(UTC)
