"""Which options of its queue, checks and policies keep a unit from starting."""

from __future__ import annotations

import pytest

from queue_insight.insight.change import annotated
from queue_scheduler.quota.quota_settings import QuotaMode
from shared_api.objects.queue import AdmissionCheckReference
from shared_api.objects.queue_unit import Evictions
from shared_api.well_known_labels import (
    BACKFILL,
    ENABLE_PREEMPTION,
    EVICTION_DELAY,
    EVICTIONS_PER_HOUR,
    MAX_DEPTH,
    PREEMPT_RUNNING,
    RECLAIM_POLICY,
    STOP_POLICY,
    WAIT_FOR_PODS_RUNNING,
)
from tests.properties.engine_kit import (
    admitted,
    build_check,
    build_queue,
    build_quota,
    build_unit,
    changed,
    running,
)
from tests.queue_insight.insight.changes_kit import SINCE, SmallCluster, names, of_kind, the


def test_a_stopped_queue_is_resumed() -> None:
    cluster = SmallCluster(build_queue("a", annotations={STOP_POLICY: "Hold"}))
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "stopPolicy")
    assert (change.sufficient, change.description) == (True, "Resume queue a.")
    (patch,) = change.patches
    assert (patch.kind, patch.namespace, patch.name) == ("Queue", "kq", "a")
    assert patch.patch == annotated({STOP_POLICY: "None"})


def test_resuming_a_queue_is_not_enough_where_no_limit_can_be_raised() -> None:
    cluster = SmallCluster(
        build_queue("a", annotations={STOP_POLICY: "Hold"}), mode=QuotaMode.RUNTIME
    )
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "stopPolicy")
    want = "Resuming queue a alone does not start it."
    assert (change.sufficient, change.description) == (False, want)


def test_a_queue_that_waits_for_pods_need_not() -> None:
    cluster = SmallCluster(build_queue("a", annotations={WAIT_FOR_PODS_RUNNING: "true"}))
    cluster.apply(admitted(build_unit("old", "a", cpu=1), 2))
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "queueOption")
    assert change.description == "Let queue a not wait until pods run."
    assert change.patches[0].patch == annotated({WAIT_FOR_PODS_RUNNING: "false"})


def test_a_unit_behind_a_refused_one_passes_under_another_policy() -> None:
    cluster = SmallCluster(build_queue("a", "Block"))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "queueOption")
    # To backfill does not help: the running unit declares no end, so no unit passes.
    assert change.description == "Give queue a the policy Priority."
    assert change.patches[0].patch == {"spec": {"queuePolicy": "Priority"}}


def test_a_unit_that_would_delay_the_head_passes_without_backfill() -> None:
    cluster = SmallCluster(build_queue("a", annotations={BACKFILL: "true"}))
    cluster.run("old", cpu=3)
    cluster.wait("head", cpu=4, priority=5)
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "queueOption")
    assert change.description == "Let queue a not backfill."


def test_the_least_depth_at_which_the_unit_is_considered() -> None:
    cluster = SmallCluster(build_queue("a", annotations={MAX_DEPTH: "2"}))
    cluster.run("old", cpu=3)
    for number in range(5):
        cluster.wait(f"ahead-{number}", cpu=4, priority=5, created=number)
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "queueOption")
    assert change.description == "Let queue a consider 6 units."
    assert change.patches[0].patch == annotated({MAX_DEPTH: "6"})


@pytest.mark.parametrize("runs", [False, True], ids=["it does not run yet", "it runs"])
def test_a_queue_may_preempt(runs: bool) -> None:
    cluster = SmallCluster()
    if runs:
        cluster.run("low", cpu=4)
    else:
        cluster.apply(admitted(build_unit("low", "a", cpu=4), 2))
    cluster.wait("new", cpu=2, priority=5)
    change = the(cluster.changes("new"), "preemption")
    also = ", running units as well" if runs else ""
    assert change.description == f"Let queue a preempt{also}; it then evicts 1 unit."
    assert names(change.units) == ["low"]
    switches = {ENABLE_PREEMPTION: "true"} | ({PREEMPT_RUNNING: "true"} if runs else {})
    assert change.patches[0].patch == annotated(switches)


def test_a_queue_that_preempts_would_not_evict_a_unit_of_equal_priority() -> None:
    cluster = SmallCluster()
    cluster.run("low", cpu=4)
    cluster.wait("new", cpu=2)
    assert of_kind(cluster.changes("new"), "preemption") == []


def test_a_quota_may_reclaim_what_others_borrow() -> None:
    cluster = SmallCluster(
        build_quota("top", cpu=6),
        *(build_quota("b", cpu=6, parent="top"), build_queue("b")),
        *(build_quota("c", cpu=6, guaranteed=4, parent="top"), build_queue("c")),
    )
    cluster.run("borrower", "b", cpu=5)
    cluster.wait("owner", "c", cpu=2)
    change = the(cluster.changes("owner"), "preemption")
    want = "Let quota c reclaim what others borrow; it then evicts 1 unit."
    assert (change.description, names(change.units)) == (want, ["borrower"])
    (patch,) = change.patches
    assert (patch.kind, patch.name) == ("ElasticQuota", "c")
    assert patch.patch == annotated({RECLAIM_POLICY: "Any"})


def test_an_inactive_check_must_become_active() -> None:
    cluster = SmallCluster(
        build_queue("a", admission_checks=(AdmissionCheckReference(name="quota-ok"),))
    )
    cluster.engine.on_admission_checks_served(are_served=True)
    cluster.engine.on_admission_check(build_check("quota-ok", "False", "no controller"))
    cluster.wait("new", cpu=1)
    change = the(cluster.changes("new"), "check")
    want = "The controller of admission check quota-ok must be able to perform it."
    assert (change.sufficient, change.description) == (True, want)


# --- guards ---------------------------------------------------------------------------------------


PREEMPTS = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}


def test_a_queue_may_evict_without_a_delay() -> None:
    cluster = SmallCluster(build_queue("a", annotations=PREEMPTS | {EVICTION_DELAY: "8760h"}))
    cluster.run("low", cpu=4)
    cluster.wait("new", cpu=2, priority=5)
    change = the(cluster.changes("new"), "queueOption")
    assert change.description == (
        "Let units of queue a evict others without a delay; it then evicts 1 unit."
    )
    assert names(change.units) == ["low"]
    assert change.patches[0].patch == annotated({EVICTION_DELAY: "0s"})


def test_the_least_evictions_in_an_hour_with_which_a_unit_starts() -> None:
    cluster = SmallCluster(build_queue("a", annotations=PREEMPTS | {EVICTIONS_PER_HOUR: "3"}))
    for number in range(4):
        unit = running(build_unit(f"low-{number}", "a", cpu=1), 2, since=SINCE)
        cluster.apply(changed(unit, 2, evictions=Evictions(count=1, last_time=SINCE, queue="a")))
    cluster.wait("new", cpu=2, priority=5)
    change = the(cluster.changes("new"), "queueOption")
    assert change.description == (
        "Let units of queue a evict 6 others in an hour; it then evicts 2 units."
    )
    assert change.patches[0].patch == annotated({EVICTIONS_PER_HOUR: "6"})
