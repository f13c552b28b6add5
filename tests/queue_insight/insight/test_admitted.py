"""What an admitted unit was admitted on, what it borrows, and what could evict it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.explain_views import AdmittedView
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Dequeue, WriteFailure
from shared_api.objects.meta import Condition
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPTIBLE, WAIT_FOR_PODS_RUNNING
from tests.properties.engine_kit import WALL, admitted, build_unit, changed, wall_time
from tests.queue_scheduler.round_kit import BEGIN, PREEMPTS, TAKES_ALL, Times

NOW = wall_time(WALL + int(BEGIN))
ONLY_STARTING = TAKES_ALL | {ENABLE_PREEMPTION: "true"}


def api_of(times: Times) -> Answers:
    shared = SharedEngine(times.engine, lambda _: None)
    return Answers(StateAnswers(shared, lambda: True, lambda: NOW))


def explain(times: Times, name: str) -> AdmittedView:
    found = api_of(times).explain("ns", name).admitted
    assert found is not None
    return found


def new_times(said: dict[str, str] = TAKES_ALL, reclaims: str = "Any") -> Times:
    """Return an owner with a guarantee of 4 of 6, and a borrower without any."""
    times = Times()
    times.quota("top", 6)
    times.quota("owner", 6, "top", guaranteed=4, reclaims=reclaims)
    times.quota("borrower", 6, "top")
    times.queue("q", said)
    return times


def reasons(view: AdmittedView) -> list[str]:
    return [each.reason for each in view.eviction.spared]


def test_what_it_was_admitted_on() -> None:
    times = new_times()
    times.runs("before", "borrower", 1)
    times.comes("u", "borrower", 2)
    got = explain(times, "u")
    assert [each.model_dump() for each in got.limits or ()] == [
        {"quota": "borrower", "kind": "max", "resource": "cpu", "limit": "6", "used": "1",
         "requested": "2"},
        {"quota": "top", "kind": "max", "resource": "cpu", "limit": "6", "used": "1",
         "requested": "2"},
    ]  # fmt: skip
    assert got.limits_unknown == ""


def test_it_stays_known_while_it_runs_and_not_after_a_restart() -> None:
    times = new_times()
    times.comes("u", "borrower", 2)
    times.put(changed(times.units["u"], 0, "Running"))
    assert explain(times, "u").limits is not None
    again = new_times()
    again.put(times.units["u"])
    got = explain(again, "u")
    assert got.limits is None
    assert got.limits_unknown.startswith("It is not known: this process has not admitted the unit")


def test_it_is_not_known_of_an_admission_by_another_process() -> None:
    """The decision was right, but its write failed: the object is from elsewhere."""
    times = new_times()
    times.put(build_unit("u", "borrower", queue="q", cpu=2))
    decision = times.workers.step()
    assert isinstance(decision, Dequeue)
    assert explain(times, "u").limits is not None
    times.put(admitted(times.units["u"], 0))
    times.engine.on_write_failed(decision, WriteFailure.CONFLICT)
    assert explain(times, "u").limits is None


def test_another_admission_that_was_missed_is_not_known() -> None:
    times = new_times()
    times.comes("u", "borrower", 2)
    later = rfc3339(NOW + timedelta(hours=1))
    times.put(changed(times.units["u"], 0, last_allocate_time=later))
    assert explain(times, "u").limits is None


def test_what_it_borrows_and_of_whom() -> None:
    times = new_times()
    times.runs("u", "borrower", 5)
    got = explain(times, "u")
    assert [each.model_dump(exclude={"used"}) for each in got.borrowed or ()] == [
        {"quota": "borrower", "resource": "cpu", "guaranteed": "0", "borrowed": "5",
         "lenders": [{"quota": "owner", "amount": "3"}]},
        {"quota": "top", "resource": "cpu", "guaranteed": "4", "borrowed": "1", "lenders": []},
    ]  # fmt: skip
    assert got.eviction.possible
    assert [each.quota for each in got.eviction.reclaimers] == ["owner"]


@pytest.mark.parametrize(
    ("said", "reclaims", "want", "possible"),
    [
        pytest.param(TAKES_ALL, "Never", ["QueueDoesNotPreempt", "NoQuotaReclaims"], False,
                     id="nothing is on"),
        pytest.param(TAKES_ALL, "Any", ["QueueDoesNotPreempt"], True, id="quotas reclaim"),
        pytest.param(ONLY_STARTING, "Never", ["PodsRun", "NoQuotaReclaims"], False,
                     id="the queue preempts, but no units that run"),
        pytest.param(PREEMPTS, "Never", ["NoQuotaReclaims"], True, id="the queue preempts"),
    ],
)  # fmt: skip
def test_which_preemptions_are_on(
    said: dict[str, str], reclaims: str, want: list[str], *, possible: bool
) -> None:
    times = new_times(said, reclaims)
    times.runs("u", "borrower", 3)
    got = explain(times, "u")
    assert reasons(got) == want
    assert got.eviction.possible is possible


def test_a_queue_that_waits_for_pods_may_evict_the_unit_that_it_waits_for() -> None:
    """Even if its pods all run: its phase does not say so yet."""
    times = new_times(ONLY_STARTING | {WAIT_FOR_PODS_RUNNING: "true"}, "Never")
    unit = admitted(build_unit("u", "owner", queue="q", cpu=3), 1)
    runs = tuple(replace(each, running=each.replicas) for each in unit.status.admissions)
    times.put(changed(unit, 1, admissions=runs))
    times.put(build_unit("higher", "owner", queue="q", cpu=1, priority=5))
    got = explain(times, "u")
    assert got.eviction.by_queue
    assert [each.name for each in got.eviction.units] == ["higher"]


def test_a_unit_within_its_guarantee_is_not_reclaimed() -> None:
    times = new_times()
    times.runs("u", "owner", 3)
    got = explain(times, "u")
    assert got.borrowed == []
    assert reasons(got) == ["QueueDoesNotPreempt", "WithinGuarantee"]
    assert not got.eviction.possible


def test_a_unit_that_may_not_be_preempted() -> None:
    times = new_times(PREEMPTS)
    unit = build_unit("u", "borrower", queue="q", cpu=3, labels={PREEMPTIBLE: "false"})
    times.put(admitted(unit, 1, "Running"))
    got = explain(times, "u")
    assert reasons(got) == ["NotPreemptible"]
    assert not got.eviction.possible


def test_a_protected_unit_is_left_alone_until_a_time() -> None:
    times = new_times(PREEMPTS)
    times.engine.candidates.protect_seconds = 100.0
    times.comes("u", "borrower", 3)
    got = explain(times, "u")
    until = rfc3339(NOW + timedelta(seconds=100))
    want = f"it was admitted not long ago, and is protected until {until}"
    assert got.eviction.spared[0].model_dump() == {"reason": "Protected", "message": want}
    assert not got.eviction.possible


def test_a_unit_that_was_evicted_before_is_left_alone() -> None:
    times = new_times(PREEMPTS)
    times.comes("u", "borrower", 3)
    back = (Condition(type="Evicted", status="False", reason="Preempted"),)
    times.put(changed(times.units["u"], 0, conditions=back))
    assert reasons(explain(times, "u"))[0] == "LeftAlone"


def test_which_waiting_units_would_evict_it() -> None:
    times = new_times(PREEMPTS)
    times.runs("u", "borrower", 3)
    times.runs("more", "borrower", 3, priority=5)
    for name, quota, cpu, priority in (
        ("mine", "owner", 2, 0), ("higher", "borrower", 2, 4), ("equal", "borrower", 1, 0),
    ):  # fmt: skip
        times.put(build_unit(name, quota, queue="q", cpu=cpu, priority=priority))
    found = {(each.name, each.reason) for each in explain(times, "u").eviction.units}
    assert found == {("mine", "Reclaimed")}, "a borrower is owed no room"
    assert explain(times, "more").eviction.units == []


def test_units_of_others_are_counted_and_not_named() -> None:
    times = new_times()
    times.runs("u", "borrower", 6)
    for namespace in ("ns", "theirs"):
        cpu = len(namespace) // 2
        times.put(build_unit("mine", "owner", queue="q", cpu=cpu, namespace=namespace))
    got = api_of(times).explain("ns", "u")
    shown = hide(got, lambda _: False).admitted
    assert shown is not None
    assert [each.namespace for each in shown.eviction.units] == ["ns"]
    assert shown.eviction.others == 1
    assert hide(got, lambda _: True) == got


def test_a_unit_that_waits_is_not_admitted() -> None:
    times = new_times()
    times.put(build_unit("u", "borrower", queue="q", cpu=9))
    assert api_of(times).explain("ns", "u").admitted is None


def test_a_unit_without_a_quota() -> None:
    times = new_times()
    unit = replace(build_unit("u", queue="q", cpu=1))
    times.put(admitted(unit, 1, "Running"))
    got = explain(times, "u")
    assert (got.limits, got.borrowed) == (None, None)
    assert got.limits_unknown == "It is charged to no quota."
    assert reasons(got) == ["QueueDoesNotPreempt", "NothingToReclaim"]
