from varnish_gateway.api import Key
from varnish_gateway.translate.incremental.dependency import Derived
from varnish_gateway.translate.incremental.quotas import Charge, Quotas, dependency

POOL, OTHER = Key("Gateway", "infra", "web"), Key("Gateway", "infra", "other")


def route(name: str, account: str = "a") -> Key:
    return Key("HTTPRoute", account, name)


def charge(age: int, account: str = "a", **items: int) -> dict[Key, Charge]:
    return {POOL: Charge(account, (age, ""), items)}


def changed(quotas: Quotas, claimant: Key, charges: dict[Key, Charge]) -> list[Derived]:
    """Update one claimant; return the dependencies that changed with it."""
    quotas.update(claimant, charges)
    return list(quotas.apply_limits())


def exceeding(quotas: Quotas, *claimants: Key) -> list[str]:
    return [one.name for one in claimants if quotas.quota_exceeded(POOL, one) is not None]


A, B, C = map(route, "abc")


def test_claimants_within_the_limit_exceed_nothing():
    quotas = Quotas(100, 10)
    assert changed(quotas, A, charge(1, x=5)) == []
    assert changed(quotas, B, charge(2, y=5)) == []
    assert exceeding(quotas, A, B) == []


def test_oldest_claimants_come_first_whatever_the_order_of_arrival():
    quotas = Quotas(100, 10)
    changed(quotas, C, charge(3, z=1))
    changed(quotas, B, charge(2, y=6))
    assert changed(quotas, A, charge(1, x=5)) == [dependency(POOL, B), dependency(POOL, C)]
    assert exceeding(quotas, A, B, C) == ["b", "c"]
    assert quotas.quota_exceeded(POOL, B) == 10


def test_equal_items_of_an_account_cost_once():
    quotas = Quotas(100, 10)
    for name in "abcdef":
        assert changed(quotas, route(name), charge(1, x=9)) == []
    assert changed(quotas, C, charge(9, y=2)) == [dependency(POOL, C)]
    assert changed(quotas, C, charge(9, x=9)) == [dependency(POOL, C)]
    assert exceeding(quotas, A, B, C) == []


def test_equal_items_of_an_account_take_from_the_pool_once():
    quotas = Quotas(15, 10)
    for name in "abc":
        changed(quotas, route(name), charge(1, x=5))
    assert changed(quotas, route("other", "b"), charge(1, "b", y=8)) == [], "5 and 8 fit into 15"


def test_withdrawal_makes_room():
    quotas = Quotas(100, 10)
    changed(quotas, A, charge(1, x=9))
    changed(quotas, B, charge(2, y=9))
    assert dependency(POOL, B) in changed(quotas, A, {})
    assert exceeding(quotas, A, B) == []
    changed(quotas, B, {})
    assert quotas.quota_exceeded(POOL, B) is None


def test_claimant_exceeds_the_limit_only_in_the_pool_that_is_short():
    quotas = Quotas(100, 10)
    changed(quotas, A, charge(1, x=9))
    changed(quotas, B, {**charge(2, y=9), OTHER: Charge("a", (2, ""), {"y": 9})})
    assert quotas.quota_exceeded(POOL, B) == 10
    assert quotas.quota_exceeded(OTHER, B) is None


def test_largest_accounts_give_way_where_all_exceed_the_pool_and_small_ones_never_do():
    quotas = Quotas(40, 16)
    small = [route("s", f"small-{number}") for number in range(8)]
    for one in small:
        changed(quotas, one, charge(9, one.namespace, x=2))
    large = [route(name, account) for account in ("l1", "l2") for name in "ab"]
    for one in large:
        changed(quotas, one, charge(1 if one.name == "a" else 2, one.namespace, **{one.name: 8}))
    # 16 of the small ones and two times 16 are more than 40, two times 8 are not.
    assert exceeding(quotas, *small) == []
    assert exceeding(quotas, *large) == ["b", "b"]
    assert quotas.quota_exceeded(POOL, large[1]) == 8
    assert set(changed(quotas, large[2], {})) >= {dependency(POOL, large[1])}
    assert exceeding(quotas, *large) == []


def test_change_of_the_limit_is_a_change_for_all_who_exceed_it():
    quotas = Quotas(20, 16)
    old, new = route("old", "b"), route("new", "b")
    changed(quotas, old, charge(1, "b", x=12))
    assert changed(quotas, new, charge(2, "b", y=12)) == [dependency(POOL, new)]
    assert quotas.quota_exceeded(POOL, new) == 16
    affected = changed(quotas, A, charge(1, "a", z=8))
    assert set(affected) == {dependency(POOL, old), dependency(POOL, new)}
    assert quotas.quota_exceeded(POOL, new) == 8


class Age(int):
    compared = 0

    def __lt__(self, other: int) -> bool:
        Age.compared += 1
        return int(self) < int(other)


def test_many_changes_of_an_account_over_its_limit_are_ranked_once():
    """An operator that starts reads all routes of a namespace at once: the cost must not grow with their square."""
    quotas, routes = Quotas(100, 10), [route(f"r{number:03}") for number in range(500)]
    for age, one in enumerate(routes):
        quotas.update(one, charge(Age(age), **{one.name: 1}))
    assert quotas.apply_limits() == [dependency(POOL, one) for one in routes[10:]]
    assert Age.compared < 2 * len(routes)
    assert quotas.apply_limits() == []


def test_equal_items_of_an_account_cost_once_in_the_pool_too():
    quotas = Quotas(20, 16)
    for number in range(4):
        quotas.update(route(f"r{number}"), charge(number, x=8))
    quotas.update(B, charge(9, "b", y=12))
    assert quotas.apply_limits() == []
    assert exceeding(quotas, route("r3"), B) == []
