import asyncio

import pytest

from support.waiting import until_async
from varnish_gateway.dataplane.ghost import resolve


class Names:
    """Answers lookups from a table; a name that is not in it can't be resolved."""

    def __init__(self):
        self.table, self.changes, self.failures = {}, [], 0

    async def lookup(self, host):
        if host not in self.table:
            self.failures += 1
            raise OSError("no such name")
        return self.table[host]

    async def until_changed(self, change):
        await until_async(lambda: change in self.changes)

    async def until_failed(self, times):
        await until_async(lambda: self.failures >= times)


@pytest.fixture
def names(monkeypatch):
    names = Names()
    monkeypatch.setattr(resolve, "lookup", names.lookup)
    monkeypatch.setattr(resolve, "REFRESH_SECONDS", 0.005)
    monkeypatch.setattr(resolve, "RETRY_SECONDS", 0.005)
    return names


async def test_followed_name_keeps_its_last_good_addresses(names):
    names.table["a"] = ("192.0.2.1",)
    resolver = resolve.Resolver(names.changes.append)
    resolver.follow({"a"})
    await names.until_changed({"a": ("192.0.2.1",)})
    del names.table["a"]
    await names.until_failed(2)  # the result of the first one is reported by then
    assert names.changes == [{"a": ("192.0.2.1",)}]
    names.table["a"] = ("192.0.2.2",)
    await names.until_changed({"a": ("192.0.2.2",)})
    await resolver.close()


async def test_name_that_is_not_followed_any_more_is_not_resolved(names):
    names.table |= {"a": ("192.0.2.1",), "b": ("192.0.2.2",)}
    resolver = resolve.Resolver(names.changes.append)
    resolver.follow({"a", "b"})
    await names.until_changed({"b": ("192.0.2.2",)})
    resolver.follow({"a"})
    names.table["b"] = ("192.0.2.3",)
    names.table["a"] = ("192.0.2.4",)
    await names.until_changed({"a": ("192.0.2.4",)})
    assert {"b": ("192.0.2.3",)} not in names.changes
    await resolver.close()


async def test_lookup_asks_the_system():
    assert "127.0.0.1" in await resolve.lookup("127.0.0.1")
    with pytest.raises(OSError, match=r"."):
        await resolve.lookup("no-such-name.invalid")


async def test_invalid_name_is_logged_and_retried(monkeypatch, caplog):
    """The codec of host names refuses such a label before the system is asked."""
    monkeypatch.setattr(resolve, "RETRY_SECONDS", 0.005)
    host = f"{'a' * 64}.example.com"
    resolver = resolve.Resolver([].append)
    resolver.follow([host])
    async with asyncio.timeout(5):
        while caplog.text.count(f"can't resolve {host}: ") < 2:
            await asyncio.sleep(0.001)
    await resolver.close()


async def test_cancelled_close_is_cancelled(names):
    resolver = resolve.Resolver(names.changes.append)
    resolver.follow(["a"])
    await asyncio.sleep(0)
    closing = asyncio.create_task(resolver.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
