"""How often HAProxy may reload.

In:   the time, in seconds of any clock.
Out:  how long the next reload has to wait.
Pure. After a reload the former worker lives until its connections are finished, for ``finish_seconds`` at most.
HAProxy terminates the oldest one when there are more than MOST_FORMER_WORKERS. So a tenant whose ports open and
close all the time would cut downloads and WebSockets of all others. The budget keeps the reloads of that time
within that number: no worker has to go early. The price is paid by the change that waits.
"""

from varnish_gateway.emit import haproxy

AT_ONCE = 4
"""How many reloads may follow one another without a wait."""


class ReloadBudget:
    """A bucket of reloads that refills evenly."""

    def __init__(self, finish_seconds: float) -> None:
        self._interval = finish_seconds / max(1, haproxy.MOST_FORMER_WORKERS - AT_ONCE)
        self._full_at = 0.0
        """When the whole budget is there again."""

    def wait(self, now: float) -> float:
        """Return the seconds until the next reload may begin; 0: at once."""
        return max(0.0, self._full_at - (AT_ONCE - 1) * self._interval - now)

    def spend(self, now: float) -> None:
        """Count a reload, also one that did not wait: such a one makes the next one wait no longer than others do."""
        self._full_at = min(max(now, self._full_at) + self._interval, now + AT_ONCE * self._interval)
