"""Quotas of pools that several accounts draw on, each with several claimants.

In:   what each claimant takes from each pool: for which account, and its items with their costs.
Out:  which claimants exceed the limit of their account in a pool.

Equal items of an account cost once. Of the claimants of an account, those of the lowest rank come first; the first one
that doesn't fit and all after it exceed the limit. Where all accounts together take more than the
pool has, the limit of an account is halved until they fit. So the accounts that take the most have
to give way, and one that takes less than its part of the pool never does.

A change costs the items of its claimant. ``apply_limits`` works once for all changes before it: where an
account exceeds its limit that costs the claimants of that account, however many of them changed, and where the limit
changes those of the accounts that exceed the lower one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from varnish_gateway.translate.incremental.dependency import Derived

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from varnish_gateway.api.meta import Key
    from varnish_gateway.translate.incremental.claims import Rank


class Charge(NamedTuple):
    """What a claimant takes from one pool."""

    account: str
    rank: Rank
    items: Mapping[str, int]


class Quotas:
    """``pool_limit`` is for all accounts of a pool together, ``account_limit`` for each."""

    def __init__(self, pool_limit: int, account_limit: int) -> None:
        self._pool_limit = pool_limit
        self._account_limit = account_limit
        self._charges: dict[Key, Mapping[Key, Charge]] = {}
        self._pools: dict[Key, _Pool] = {}
        self._dirty: dict[Key, None] = {}  # pools

    def update(self, claimant: Key, charges: Mapping[Key, Charge]) -> None:
        """Replace all that a claimant takes, by pool; ``apply_limits`` has to follow."""
        before = self._charges.pop(claimant, {})
        if charges:
            self._charges[claimant] = charges
        for pool in {**before, **charges}:
            if before.get(pool) != charges.get(pool):
                found = self._pools.setdefault(pool, _Pool(self._account_limit))
                found.replace(claimant, before.get(pool), charges.get(pool))
                self._dirty[pool] = None

    def apply_limits(self) -> Iterable[Derived]:
        """Apply the limits; return the claimants whose ``quota_exceeded`` changed."""
        dirty, self._dirty = self._dirty, {}
        changed: list[Derived] = []
        for pool in dirty:
            found = self._pools[pool]
            changed += (dependency(pool, one) for one in sorted(found.apply_limit(self._pool_limit)))
            if not found.accounts:
                del self._pools[pool]
        return changed

    def quota_exceeded(self, pool: Key, claimant: Key) -> int | None:
        """Return the limit of its account that a claimant exceeds, None where it doesn't."""
        found = self._pools.get(pool)
        if found is None or claimant not in found.exceeding:
            return None
        return found.limit


def dependency(pool: Key, claimant: Key) -> Derived:
    """Return the dependency on whether a claimant exceeds the limit of its account in a pool."""
    return Derived("quota", (pool, claimant))


class _Pool:
    """``limit`` is that of every account now; ``exceeding`` are claimants."""

    def __init__(self, account_limit: int) -> None:
        self.accounts: dict[str, _Account] = {}
        self.limit = account_limit
        self.exceeding: set[Key] = set()
        self._account_limit = account_limit
        self._dirty: dict[str, None] = {}  # accounts

    def replace(self, claimant: Key, before: Charge | None, after: Charge | None) -> None:
        """Replace what a claimant takes."""
        if before is not None:
            self.accounts[before.account].remove(claimant)
            self._dirty[before.account] = None
        if after is not None:
            self.accounts.setdefault(after.account, _Account()).add(claimant, after)
            self._dirty[after.account] = None

    def apply_limit(self, pool_limit: int) -> AbstractSet[Key]:
        """Apply the limit to accounts that changed, or to all if it has changed; return who is affected."""
        dirty, self._dirty = self._dirty, {}
        limit, self.limit = self.limit, self._fitting(pool_limit)
        changed: set[Key] = set()
        for name in [*(dirty if limit == self.limit else self.accounts)]:
            changed |= self._judge(self.accounts[name], limit)
            if not self.accounts[name].charges:
                del self.accounts[name]
        return changed

    def _fitting(self, pool_limit: int) -> int:
        """Return the limit with which all accounts fit into the pool."""
        limit = self._account_limit
        while limit > 1 and sum(min(account.total, limit) for account in self.accounts.values()) > pool_limit:
            limit //= 2
        return limit

    def _judge(self, account: _Account, limit_before: int) -> AbstractSet[Key]:
        before, account.exceeding = account.exceeding, set(account.beyond(self.limit))
        exceeding = account.exceeding
        self.exceeding -= before
        self.exceeding |= exceeding
        return exceeding | before if limit_before != self.limit else exceeding ^ before


class _Account:
    """``total`` is the cost of all distinct items."""

    def __init__(self) -> None:
        self.charges: dict[Key, Charge] = {}
        self.exceeding: set[Key] = set()
        self.total = 0
        self._holders: dict[str, int] = {}

    def add(self, claimant: Key, charge: Charge) -> None:
        self.charges[claimant] = charge
        for item, cost in charge.items.items():
            holders = self._holders.get(item, 0)
            self._holders[item] = holders + 1
            self.total += 0 if holders else cost

    def remove(self, claimant: Key) -> None:
        for item, cost in self.charges.pop(claimant).items.items():
            self._holders[item] -= 1
            if not self._holders[item]:
                del self._holders[item]
                self.total -= cost

    def beyond(self, limit: int) -> Iterator[Key]:
        """Return the claimants that exceed a limit."""
        if self.total <= limit:
            return
        counted: set[str] = set()
        taken = 0
        for claimant in sorted(self.charges, key=lambda one: self.charges[one].rank):
            if taken <= limit:
                items = self.charges[claimant].items
                taken += sum(cost for item, cost in items.items() if item not in counted)
                counted |= items.keys()
            if taken > limit:
                yield claimant
