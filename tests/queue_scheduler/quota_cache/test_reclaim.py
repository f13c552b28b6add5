"""What may be reclaimed together, of charges in quotas that borrow."""

from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_decision import Borrowed, Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.reclaim import LentUsage, find_borrowed, find_owners
from shared_api.testing.object_builders import elastic_quota

OWNED = Demand({"cpu": 2000})


def new_quotas() -> QuotaCache:
    """Return an owner, a parent that borrows with two children, and their usage."""
    quotas = QuotaCache(QuotaSettings(mode=QuotaMode.MAX))
    most = {"cpu": 20, "memory": 20}
    quotas.on_quota(elastic_quota("top", max=most, is_parent=True))
    quotas.on_quota(elastic_quota("owner", max=most, min={"cpu": 9}, parent="top"))
    quotas.on_quota(elastic_quota("both", max=most, min={"cpu": 3}, parent="top", is_parent=True))
    for name in ("one", "two"):
        quotas.on_quota(elastic_quota(name, max=most, min={"cpu": 1}, parent="both"))
    for owner, quota, cpu in (
        ("one/1", "one", 1), ("one/3", "one", 3), ("two/1", "two", 1), ("two/2", "two", 2),
    ):  # fmt: skip
        quotas.charge(owner, quota, Demand({"cpu": 1000 * cpu}))
    return quotas


def books_with_memory() -> QuotaCache:
    """Return the same; of `two` a memory of 1 is its own, and two units have one each."""
    quotas = new_quotas()
    quotas.on_quota(elastic_quota("two", max={"cpu": 20, "memory": 20}, parent="both",
                                 min={"cpu": 1, "memory": 1}))  # fmt: skip
    for owner in ("two/m", "two/n"):
        quotas.charge(owner, "two", Demand({"cpu": 1000, "memory": 1}))
    return quotas


def lent_of(quotas: QuotaCache, *leaving: str) -> LentUsage:
    return LentUsage(quotas.trees, quotas.ledger, "owner", OWNED, leaving)


def test_no_quota_in_the_chain_falls_below_its_own() -> None:
    """`both` uses 7 of 3, `one` 4 of 1, `two` 3 of 1."""
    lent = lent_of(new_quotas())
    assert lent.copy().take("one/1", 9) == 3
    assert lent.copy().take("two/2", 9) == 1
    assert lent.take("one/3", 1) == 1
    assert lent.take("two/2", 1) == 0, "4 may go of both"
    assert lent.take("two/1", 9) == 1
    assert lent.take("two/1", 1) == 0


def test_usage_that_leaves_anyway_is_no_longer_borrowed() -> None:
    lent = lent_of(new_quotas(), "one/3")
    assert lent.copy().take("one/1", 9) == 0, "it keeps its 1 of 1"
    assert lent.take("two/2", 1) == 0
    assert lent.take("two/1", 9) == 1


def test_usage_that_leaves_anyway_may_be_all_that_is_borrowed_of_a_resource() -> None:
    """The borrowed memory leaves; cpu is still borrowed."""
    quotas = books_with_memory()
    assert lent_of(quotas, "two/m").take("two/n", 1) == 0
    assert lent_of(quotas, "two/m").take("two/1", 1) == 1


def test_a_resource_is_not_taken_below_its_own_once_it_was_above() -> None:
    lent = lent_of(books_with_memory())
    assert lent.take("two/m", 9) == 1
    assert lent.take("two/n", 1) == 0


def test_a_resource_that_was_not_above_may_fall() -> None:
    quotas = new_quotas()
    quotas.charge("one/m", "one", Demand({"cpu": 1000, "memory": 5}))
    assert not quotas.trees.entitlements.of("both").get("memory")
    quotas.on_quota(elastic_quota("one", max={"cpu": 20, "memory": 20}, parent="both",
                                 min={"cpu": 1, "memory": 9}))  # fmt: skip
    assert lent_of(quotas).take("one/m", 1) == 1


@pytest.mark.parametrize("owner", ["nobody", "top/1", "memory"])
def test_nothing_is_taken_from_a_unit_that_holds_nothing_lent(owner: str) -> None:
    quotas = new_quotas()
    quotas.charge("memory", "one", Demand({"memory": 9}))
    assert lent_of(quotas).take(owner, 1) == 0


def test_units_without_a_common_quota_do_not_hinder_each_other() -> None:
    lent = lent_of(new_quotas())
    assert lent.places("one/1") & lent.places("two/1"), "both are below one that borrows"
    assert not lent.places("nobody")


def test_a_copy_is_independent() -> None:
    lent = lent_of(new_quotas())
    assert lent.copy().take("one/3", 1) == 1
    assert lent.take("one/3", 1) == 1


def test_what_is_borrowed_and_whose_it_may_be() -> None:
    """`both` uses 7 of 3, `one` 4 of 1; `owner` uses none of 9, and 13 of 20 are free."""
    quotas = new_quotas()
    got = find_borrowed(quotas.trees, "one", Demand({"cpu": 1000}))
    assert got == (
        Borrowed("one", "cpu", 4000, 1000),
        Borrowed("both", "cpu", 7000, 3000),
    ), "all that is guaranteed is still free"
    quotas.charge("mine", "top", Demand({"cpu": 8000}))
    got = find_borrowed(quotas.trees, "one", Demand({"cpu": 1000}))
    assert got[1].lenders == (("owner", 4000),), "5 are free, and 9 are guaranteed"
    assert [(each.quota, each.amount) for each in got] == [
        ("one", 3000), ("both", 4000), ("top", 3000),
    ]  # fmt: skip


def test_a_quota_within_its_min_borrows_nothing() -> None:
    quotas = new_quotas()
    quotas.charge("own", "owner", Demand({"cpu": 5000}))
    assert find_borrowed(quotas.trees, "owner", Demand({"cpu": 5000})) == ()
    assert find_borrowed(quotas.trees, "gone", Demand({"cpu": 9000})) == ()


def test_who_is_owed_what_a_unit_holds() -> None:
    quotas = new_quotas()
    assert find_owners(quotas.trees, "one", Demand({"cpu": 1000})) == ("top", "owner")
    assert find_owners(quotas.trees, "one", Demand({"memory": 1})) == ()
    assert find_owners(quotas.trees, "owner", Demand({"cpu": 1000})) == ()
    quotas.charge("own", "owner", Demand({"cpu": 9000}))
    assert find_owners(quotas.trees, "one", Demand({"cpu": 1000})) == (), "all use their own"
