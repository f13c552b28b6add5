"""Which pods without a node are told."""

from __future__ import annotations

from queue_scheduler.quota_cache.pressing_pods import PressingPod, PressingPods
from shared_api.objects.meta import NO_UID, Uid


def pod(name: str, amount: int = 1, job: str = "") -> PressingPod:
    return PressingPod(amount, name, Uid(job))


def test_the_largest_of_the_namespace_are_named_and_the_others_counted() -> None:
    pods = PressingPods([*(pod(f"ns/{n}", n) for n in range(1, 6)), pod("x/a", 9), pod("y/b", 9)])
    got = pods.describe("ns", NO_UID)
    assert got == ("ns/5", "ns/4", "ns/3", "2 more of its namespace", "2 of other namespaces")
    assert pods.describe("z", NO_UID) == ("7 of other namespaces",)


def test_the_pods_of_the_job_itself_do_not_press_it() -> None:
    pods = PressingPods([pod("ns/own", 5, "job"), pod("ns/other", 4, "else")])
    assert pods.describe("ns", Uid("job")) == ("ns/other",)
    assert pods.describe("ns", NO_UID) == ("ns/own", "ns/other")


def test_of_equal_pods_the_first_by_name_comes_first() -> None:
    assert PressingPods([pod("ns/b"), pod("ns/a")]).describe("ns", NO_UID) == ("ns/a", "ns/b")
    assert PressingPods(()).describe("ns", NO_UID) == ()
