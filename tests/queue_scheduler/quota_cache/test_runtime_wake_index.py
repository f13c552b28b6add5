from __future__ import annotations

from queue_scheduler.decision import Reason, Refusal, RuntimeBasis
from queue_scheduler.quota_cache.level_division import USUAL
from queue_scheduler.quota_cache.runtime_wake_index import RuntimeWakeIndex


def refused(more: int = 1, *, scope: str = "o", has: int = 7) -> Refusal:
    basis = RuntimeBasis(
        scope=scope,
        parent="p",
        asker="a",
        more=more,
        subject="a",
        had=7,
        has=has,
        unseeded=False,
        unrefreshed=False,
    )
    return Refusal(reason=Reason.OVER_RUNTIME, quota="q", resource="x", basis=basis)


def test_waiters_with_the_same_basis_are_found_together() -> None:
    waiters = RuntimeWakeIndex()
    first, second = refused(), refused(more=3)
    waiters.add("a", "", first, 4)
    waiters.add("b", "", second, 5)
    waiters.add("c", "", refused(), 6)
    waiters.add("d", "", refused(scope="other"), 6)
    scopes = waiters.refused_on("", "x")
    assert list(scopes) == ["o", "other"]
    assert scopes["o"].most == 3
    family = scopes["o"].families["p", USUAL]
    assert family == {first.basis: {"a": 4, "c": 6}, second.basis: {"b": 5}}
    assert waiters.refused_on("", "y") == {}
    assert waiters.refused_on("tree", "x") == {}


def test_nothing_is_left_of_removed_waiters() -> None:
    waiters = RuntimeWakeIndex()
    for name, refusal in (("a", refused()), ("b", refused(has=6)), ("c", refused(scope="s"))):
        waiters.add(name, "", refusal, 0)
    copy = waiters.fork()
    for name, refusal in (("a", refused()), ("b", refused(has=6))):
        waiters.remove(name, "", refusal)
    assert list(waiters.refused_on("", "x")) == ["s"]
    waiters.remove("c", "", refused(scope="s"))
    assert waiters.refused_on("", "x") == {}
    assert list(copy.refused_on("", "x")) == ["o", "s"]
