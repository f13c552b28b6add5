"""Which waiters are asked again after a change; that none is forgotten is a property (waking)."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.meta import Uid
from tests.properties.quota_cases import build_quota, take_woken


def half_up_quotas(*, above: str = "", above_max: int = 900, capacity: int = 900) -> QuotaCache:
    """Return a quota cache with parents p and r, where pc loses a unit if pa asks for one.

    p has 603 for the 301 of pb and the pending pod of pc; an ancestor's max does not count that.
    """
    quotas = QuotaCache(QuotaSettings(rounding_override=Rounding.HALF_UP))
    if above:
        quotas.on_quota(build_quota(above, maximum={"x": above_max}, is_parent=True))
    for parent in "pr":
        maximum = {"x": 603 if parent == "p" else 900}
        quotas.on_quota(build_quota(parent, maximum=maximum, parent=above, is_parent=True))
        for name in "abc":
            quotas.on_quota(build_quota(parent + name, maximum={"x": 500}, parent=parent))
    quotas.on_capacity({"x": capacity})
    quotas.charge("one", "pb", Demand({"x": 301}))
    quotas.on_foreign("two", "pc", {"x": 302})
    return quotas


def let_wait(quotas: QuotaCache, quota: str, amount: int) -> Refusal:
    demand = Demand({"x": amount})
    refusal = quotas.check(quota, demand)
    assert refusal is not None
    assert refusal.basis is not None
    quotas.wait(quota, quota, demand, refusal)
    return refusal


def to_recheck(quotas: QuotaCache) -> list[object]:
    """Return the waiters that would be asked again, without settling."""
    tree = quotas.trees.trees[""]
    scopes = quotas._waiting.refused_by_runtime("", "x")  # noqa: SLF001 - who is asked is not told
    return list(quotas.trees.waiters_to_recheck(tree, "x", scopes))


def test_a_unit_that_would_take_from_others_waits_for_its_own_branch() -> None:
    quotas = half_up_quotas(capacity=700)
    refusal = let_wait(quotas, "pa", 1)
    assert (refusal.reason, refusal.other) == (Reason.HURTS_OTHERS, "pc")
    assert refusal.basis is not None
    assert (refusal.basis.scope, refusal.basis.subject) == ("p", "p")
    # Elsewhere, while the root has plenty.
    quotas.charge("three", "ra", Demand({"x": 90}))
    assert to_recheck(quotas) == []
    assert take_woken(quotas) == []
    # The root gets tight, and p gets less; then again what it got.
    quotas.charge("four", "rb", Demand({"x": 10}))
    assert to_recheck(quotas) == ["pa"]
    quotas.release("four")
    assert to_recheck(quotas) == []
    assert take_woken(quotas) == []
    quotas.on_foreign("two", "pc", None)
    assert to_recheck(quotas) == ["pa"]
    assert take_woken(quotas) == ["pa"]


def test_a_level_in_between_that_gets_tight_is_checked_again() -> None:
    quotas = half_up_quotas(above="o", above_max=700)
    refusal = let_wait(quotas, "pa", 1)
    assert refusal.basis is not None
    # While nothing is booked beside p, o loses nothing.
    assert (refusal.basis.scope, refusal.basis.subject) == ("p", "p")
    quotas.charge("three", "ra", Demand({"x": 90}))
    assert to_recheck(quotas) == []
    quotas.charge("four", "rb", Demand({"x": 10}))
    assert to_recheck(quotas) == ["pa"]


def test_waiters_with_the_same_basis_are_in_doubt_together() -> None:
    quotas = half_up_quotas()
    demand = Demand({"x": 1})
    for number in range(3):
        refusal = quotas.check("pa", demand)
        assert refusal is not None
        quotas.wait(number, "pa", demand, refusal)
    (scope,) = quotas._waiting.refused_by_runtime("", "x").values()  # noqa: SLF001 - the index
    (groups,) = scope.families.values()
    assert list(groups.values()) == [dict.fromkeys(range(3), 0)]
    quotas.charge("three", "pb", Demand({"x": 1}))
    assert to_recheck(quotas) == [0, 1, 2]


def test_a_waiter_keeps_its_basis() -> None:
    # With another reason for users, and after other queries.
    quotas = half_up_quotas()
    demand = Demand({"x": 1})
    refusal = quotas.check("pa", demand)
    assert refusal is not None
    assert quotas.check("pc", demand) is None
    got = replace(refusal, reason=Reason.OVER_MAX_JOBS, told_of=refusal.reason)
    quotas.wait("w", "pa", demand, got)
    quotas.charge("three", "ra", Demand({"x": 1}))
    assert to_recheck(quotas) == []


def test_a_parent_that_is_over_elsewhere_is_within_the_scope() -> None:
    # checkParent: o is over, for r below it asks for more than its max. Only the division of u is
    # not plain (z has no weight), but not only what happens below u can help.
    quotas = QuotaCache(QuotaSettings(koordinator_version="HEAD", check_parent=True))
    quotas.on_quota(build_quota("o", maximum={"x": 100}, is_parent=True))
    quotas.on_quota(build_quota("u", maximum={"x": 50}, parent="o", is_parent=True))
    quotas.on_quota(build_quota("r", maximum={"x": 5}, parent="o"))
    quotas.on_quota(build_quota("q", maximum={"x": 50}, parent="u"))
    quotas.on_quota(build_quota("z", maximum={"x": 50}, weight={"x": 0, "y": 1}, parent="u"))
    quotas.on_capacity({"x": 1000})
    quotas.on_foreign("pod", "r", {"x": 8})
    refusal = let_wait(quotas, "q", 4)
    assert (refusal.reason, refusal.quota) == (Reason.OVER_PARENT_RUNTIME, "o")
    quotas.on_foreign("pod", "r", None)
    assert take_woken(quotas) == ["q"]


def test_a_waiter_since_a_charge_of_its_quota_is_woken_by_a_release_elsewhere() -> None:
    """All before a settle: charges below are seen, later changes are not."""
    quotas = QuotaCache(QuotaSettings(cap_by_total=False))
    for name in "abc":
        quotas.on_quota(build_quota(name, maximum={"x": 10}))
    quotas.on_capacity({"x": 10})
    quotas.charge("elsewhere", "b", Demand({"x": 5}))
    let_wait(quotas, "c", 6)  # so that there is something to settle
    quotas.charge("own", "a", Demand({"x": 2}))
    refusal = let_wait(quotas, "a", 4)
    assert (refusal.reason, refusal.quota) == (Reason.OVER_RUNTIME, "a")
    assert "a" not in to_recheck(quotas), "it has seen the charge"
    quotas.release("elsewhere")
    assert "a" in to_recheck(quotas)
    assert "a" in take_woken(quotas)


def flat_quotas(capacity: int = 900) -> QuotaCache:
    """Return a quota cache with quotas a to d of max 1000 without a min."""
    quotas = QuotaCache(QuotaSettings(cap_by_total=False))
    for name in "abcd":
        quotas.on_quota(build_quota(name, maximum={"x": 1000}))
    quotas.on_capacity({"x": capacity})
    return quotas


def test_a_share_that_changes_and_stays_too_small_is_no_reason_to_ask() -> None:
    quotas = flat_quotas()
    quotas.charge("b3", "b", Demand({"x": 300}))
    quotas.charge("c1", "c", Demand({"x": 100}))
    refusal = let_wait(quotas, "a", 800)
    assert (refusal.reason, refusal.limit) == (Reason.OVER_RUNTIME, 500)
    quotas.release("c1")
    assert to_recheck(quotas) == [], "it would get 600 now"
    assert take_woken(quotas) == []
    quotas.charge("d1", "d", Demand({"x": 100}))
    assert to_recheck(quotas) == []
    quotas.release("d1")
    quotas.on_capacity({"x": 1100})
    assert take_woken(quotas) == ["a"]


def test_a_sibling_that_would_be_hurt_as_before_is_no_reason_to_ask() -> None:
    quotas = flat_quotas()
    quotas.charge("b6", "b", Demand({"x": 600}))
    refusal = let_wait(quotas, "a", 400)
    assert (refusal.reason, refusal.other) == (Reason.HURTS_OTHERS, "b")
    quotas.charge("c1", "c", Demand({"x": 100}))
    assert to_recheck(quotas) == [], "b would get a little less than before"
    quotas.charge("d2", "d", Demand({"x": 200}))
    assert to_recheck(quotas) == []
    quotas.on_foreign("pods", "d", {"x": 300})
    assert to_recheck(quotas) == ["a"], "b lacks already what it uses: it cannot be hurt"


def test_a_job_beside_its_own_held_pods_is_asked_where_they_fit() -> None:
    """Its pods claim 800 of 1200; b's job has 300, and held pods in c claim 200."""
    quotas = flat_quotas(1200)
    job = Uid("job")
    quotas.on_foreign("held", "a", {"x": 800}, stage=PodStage.HELD, job=job)
    quotas.on_foreign("others", "c", {"x": 200}, stage=PodStage.HELD, job=Uid("other"))
    quotas.charge("b3", "b", Demand({"x": 300}))
    demand = Demand({"x": 800}, job=job)
    refusal = quotas.check("a", demand)
    assert refusal is not None
    assert refusal.basis is not None
    assert (refusal.basis.more, refusal.basis.relief) == (0, 800)
    quotas.wait("w", "a", demand, refusal)
    quotas.charge("d1", "d", Demand({"x": 100}))
    assert to_recheck(quotas) == []
    assert take_woken(quotas) == []
    quotas.release("d1")
    quotas.release("b3")
    assert take_woken(quotas) == ["w"]


def test_a_sibling_that_own_held_pods_would_hurt_is_compared_without_them() -> None:
    quotas = flat_quotas()
    job = Uid("job")
    quotas.charge("b6", "b", Demand({"x": 600}))
    quotas.on_foreign("held", "a", {"x": 400}, stage=PodStage.HELD, job=job)
    demand = Demand({"x": 400}, job=job)
    refusal = quotas.check("a", demand)
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.HURTS_OTHERS, "b")
    quotas.wait("w", "a", demand, refusal)
    quotas.charge("c1", "c", Demand({"x": 100}))
    assert to_recheck(quotas) == []
    quotas.release("b6")
    assert take_woken(quotas) == ["w"]
