"""Events of a data plane: published once, read by many subscribers.

In:   events from the components of the data plane.
Out:  calls to every subscriber in order, and a bounded history.
The log, health, metrics and the dashboard learn everything from this bus.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, structs

HISTORY = 256

log = logging.getLogger(__name__)


class Event(Struct, frozen=True, kw_only=True, tag=True):
    """Base of all events; ``level`` is the level of its log line."""

    level = logging.INFO

    @property
    def sentence(self) -> str:
        raise NotImplementedError


class VarnishdStarted(Event, frozen=True):
    pid: int
    sockets: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return f"varnishd runs on {', '.join(self.sockets)}"


class Unfenced(Event, frozen=True):
    """varnishd starts without its fence."""

    reason: str
    level = logging.WARNING

    @property
    def sentence(self) -> str:
        return f"user VCL can read private keys and the pod's token: {self.reason}"


class VarnishdExited(Event, frozen=True):
    reason: str
    level = logging.ERROR

    @property
    def sentence(self) -> str:
        return f"{self.reason}; restarting it with the last good configuration"


class Fault(Event, frozen=True):
    """A process, a port or a connection failed; the next attempt follows. A repeated one was logged before."""

    reason: str
    retry_seconds: float
    is_repeated: bool = False

    @property
    def level(self) -> int:  # type: ignore[override]
        return logging.DEBUG if self.is_repeated else logging.ERROR

    @property
    def sentence(self) -> str:
        return f"{self.reason}; next attempt in {self.retry_seconds:g} s"


class Restarting(Event, frozen=True):
    reason: str
    level = logging.WARNING

    @property
    def sentence(self) -> str:
        return f"restarting varnishd: {self.reason}"


class ChildDied(Event, frozen=True):
    reason: str
    panic: str | None = None
    level = logging.ERROR

    @property
    def sentence(self) -> str:
        return f"varnishd's worker died ({self.reason}); varnishd starts it again"


class ChildBack(Event, frozen=True):
    seconds: float

    @property
    def sentence(self) -> str:
        return f"varnishd's worker is back after {self.seconds:.2f} s"


class VclLoaded(Event, frozen=True):
    name: str
    digest: str
    seconds: float

    @property
    def sentence(self) -> str:
        return f"VCL {self.name} is in use"


class VclFailed(Event, frozen=True):
    reason: str
    serving: bool
    level = logging.ERROR

    @property
    def sentence(self) -> str:
        rest = "the previous VCL keeps serving" if self.serving else "there is no earlier VCL to serve with"
        return f"VCL rejected, {rest}:\n{self.reason}"


class Reloaded(Event, frozen=True):
    id: str
    seconds: float

    @property
    def sentence(self) -> str:
        return f"configuration {self.id} serves"


class ReloadFailed(Event, frozen=True):
    id: str
    reason: str
    level = logging.ERROR

    @property
    def sentence(self) -> str:
        return f"configuration {self.id} rejected, the previous one keeps serving: {self.reason}"


class Restored(Event, frozen=True):
    """The last configuration was found on disk."""

    generation: str | None

    @property
    def sentence(self) -> str:
        return "starting with the last configuration on disk until the API server answers"


class SourceLost(Event, frozen=True):
    reason: str
    level = logging.WARNING

    @property
    def sentence(self) -> str:
        return f"the API server does not answer, the last configuration keeps serving: {self.reason}"


class SourceBack(Event, frozen=True):
    seconds: float

    @property
    def sentence(self) -> str:
        return f"the API server answers again after {self.seconds:.1f} s"


class SourceProblems(Event, frozen=True):
    """The problems with the configuration in the cluster changed."""

    problems: tuple[str, ...]
    level = logging.WARNING

    @property
    def sentence(self) -> str:
        return f"the last good configuration stays: {'; '.join(self.problems)}"


class Ready(Event, frozen=True):
    """Readiness changed, or whether the newest configuration serves."""

    ready: bool
    reason: str = ""
    up_to_date: bool = True

    @property
    def sentence(self) -> str:
        if not self.ready:
            return f"not ready: {self.reason}"
        return "ready" if self.up_to_date else "ready, with the last good configuration"


class PortsChanged(Event, frozen=True):
    """Ports that should open while varnishd runs: ``closed`` are those that could not yet, with the reason.

    ``deferred`` are open ports whose newest certificates or authorities wait.
    """

    closed: Mapping[str, str]
    deferred: Mapping[str, str] = {}

    @property
    def level(self) -> int:  # type: ignore[override]
        return logging.WARNING if self.closed else logging.INFO

    @property
    def sentence(self) -> str:
        closed = [f"{socket} is not open: {reason}" for socket, reason in self.closed.items()]
        deferred = [f"{socket}: {reason}" for socket, reason in self.deferred.items()]
        return "; ".join([*closed, *deferred]) or "all ports are open"


class Invalidated(Event, frozen=True):
    """ghost has carried out an invalidation of a client, which is the name of its token."""

    client: str
    mode: str
    targets: int
    objects: int

    @property
    def sentence(self) -> str:
        return f"{self.mode} invalidation by {self.client}: {self.objects} objects, {self.targets} targets"


class Draining(Event, frozen=True):
    seconds: float

    @property
    def sentence(self) -> str:
        return f"draining for at most {self.seconds:g} s"


class Stopped(Event, frozen=True):
    @property
    def sentence(self) -> str:
        return "stopped"


class Record(Struct, frozen=True):
    """An event and when it happened (seconds since 1970)."""

    time: float
    event: Event


class Bus:
    """Subscribers are called at once, in the order of their subscription."""

    def __init__(self) -> None:
        self._history: deque[Record] = deque(maxlen=HISTORY)
        self._subscribers: list[Callable[[Event], None]] = [log_event]

    def publish(self, event: Event) -> None:
        self._history.append(Record(time.time(), event))
        for subscriber in self._subscribers:
            subscriber(event)

    def subscribe(self, subscriber: Callable[[Event], None]) -> None:
        self._subscribers.append(subscriber)

    @property
    def history(self) -> Iterator[Record]:
        """The latest records, oldest first."""
        return iter(tuple(self._history))


def log_event(event: Event) -> None:
    fields = {name: value for name, value in structs.asdict(event).items() if value is not None}
    log.log(event.level, "%s", event.sentence, extra={"event": type(event).__name__, **_safe(fields)})


def _safe(fields: dict[str, object]) -> dict[str, object]:
    """Keep clear of the names that a LogRecord has itself."""
    return {("event_name" if name == "name" else name): value for name, value in fields.items()}
