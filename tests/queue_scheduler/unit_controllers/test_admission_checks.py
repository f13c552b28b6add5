"""A reserved unit goes on when its checks say so, is requeued when not, and never hangs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_scheduler.cache.admission_check_rules import Shortfall
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.unit_questions import refusal_of_unit
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.unit_controllers.admission_checks import LONGEST_REST_SECONDS
from shared_api.timestamps import parse_time, rfc3339
from tests.object_states import condition_of
from tests.properties.engine_kit import build_pod
from tests.queue_scheduler.check_kit import TIMEOUT, Checked
from tests.queue_scheduler.shell_kit import ShellKit

LATE_SECOND = 86_399
"""Second of the day of the tests: pods are younger than their units."""


@pytest.fixture
def checked(kit: ShellKit) -> Checked:
    return Checked(kit)


def requeue_at(checked: Checked) -> datetime:
    return parse_time(checked.status()["requeueState"]["requeueAt"])


def waits(checked: Checked) -> float:
    """Return the seconds that the unit was put off for."""
    status = checked.status()
    return (requeue_at(checked) - parse_time(status["lastUpdateTime"])).total_seconds()


# --- reserved -----------------------------------------------------------------------------------


def test_a_unit_with_checks_is_reserved_charged_and_shows_them(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time()
    unit = checked.kit.unit("u")
    assert unit["status"]["phase"] == "Reserved"
    assert checked.states() == {"a": "Pending", "b": "Pending"}
    assert unit["status"]["admissions"][0]["replicas"] == 1
    assert "waits for admission checks a, b" in unit["status"]["message"]
    assert condition_of(unit, "QuotaReserved")["status"] == "True"
    assert condition_of(unit, "Admitted")["reason"] == "WaitingForAdmissionChecks"
    assert checked.kit.used() == 1000
    assert checked.line.observer.seen == [], "it is not admitted yet"


def test_it_is_admitted_when_all_are_ready_and_not_before(checked: Checked) -> None:
    checked.reserve()
    checked.say("b", "Ready")
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Reserved"
    checked.say("a", "Ready", message="nodes are there")
    checked.pass_time()
    status = checked.status()
    assert (status["phase"], status["message"]) == ("Dequeued", "all admission checks success")
    assert status["lastAllocateTime"] == status["lastUpdateTime"], "its run time begins"
    assert checked.states() == {"a": "Ready", "b": "Ready"}
    assert checked.admitted == ["team"]
    assert condition_of(checked.kit.unit("u"), "Admitted")["status"] == "True"


def test_in_a_strict_queue_nodes_are_asked_for_after_the_checks() -> None:
    kit = ShellKit(strict=StrictMode(is_on=True))
    kit.add_quota("team", cpu=4)
    checked = Checked(kit)
    checked.reserve()
    checked.pass_time()
    assert (kit.phase("u"), checked.status().get("attempts")) == ("Reserved", None)
    for name in "ab":
        checked.say(name, "Ready")
    checked.pass_time()
    assert (kit.phase("u"), checked.status()["attempts"]) == ("SchedReady", 1)
    assert kit.used() == 1000


def test_a_check_that_withdraws_its_consent_before_the_last_one_answers(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.pass_time()
    checked.say("a", "Pending")
    checked.say("b", "Ready")
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Reserved"
    checked.say("a", "Ready")
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"


def test_a_flapping_check_costs_no_write_and_its_current_state_counts(checked: Checked) -> None:
    """Before the admission its state when the last one answers, afterwards only a refusal."""
    checked.reserve()
    before = checked.kit.writes()
    for state in ("Ready", "Pending") * 5:
        checked.say("a", state)
        checked.pass_time(1.0)
    assert checked.kit.phase("u") == "Reserved"
    assert checked.kit.writes() == before
    checked.say("b", "Ready")
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Reserved"
    checked.say("a", "Ready")
    checked.pass_time(1.0)
    assert (checked.kit.phase("u"), checked.kit.writes()) == ("Dequeued", before + 1)
    for state in ("Pending", "Ready") * 5:
        checked.say("a", state)
        checked.pass_time(1.0)
    assert (checked.kit.phase("u"), checked.kit.writes()) == ("Dequeued", before + 1)


def test_without_changes_nothing_is_written(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time()
    written = checked.kit.writes()
    checked.pass_time(TIMEOUT / 2)
    assert checked.kit.writes() == written
    rest = checked.cycle.step()
    assert rest is not None
    assert 0.0 < rest <= LONGEST_REST_SECONDS


def test_where_units_start_one_at_a_time_a_reserved_unit_is_the_one(checked: Checked) -> None:
    checked.ask("a", "b", annotations={"koord-queue/wait-for-pods-running": "true"})
    checked.reserve()
    checked.kit.add_unit("next")
    checked.pass_time()
    refusal = refusal_of_unit(checked.kit.engine, "default/next")
    assert refusal is not None
    assert refusal.reason == "WaitingForPodsRunning"
    checked.say("a", "Rejected")
    checked.pass_time()
    assert checked.kit.dequeue().unit == "default/next"


@pytest.mark.parametrize("when", ["before", "while it is reserved", "never"])
def test_a_unit_whose_pods_its_queue_waits_for_says_so(checked: Checked, when: str) -> None:
    """The ten minutes run from that; otherwise a unit behind it might wait forever."""
    one_at_a_time = {"koord-queue/wait-for-pods-running": "true"}
    if when == "before":
        checked.ask("a", "b", annotations=one_at_a_time)
    checked.reserve()
    if when == "while it is reserved":
        checked.ask("a", "b", annotations=one_at_a_time)
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"
    reported = condition_of(checked.kit.unit("u"), "PodsReady")
    if when == "never":
        assert reported == {}
    else:
        assert (reported["status"], reported["reason"]) == ("False", "WaitForPodsRunning")
        assert reported["message"] == "queue team waits until its pods run"


# --- requeued -----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["", "Hold"], ids=["refused", "stopped"])
def test_no_quota_is_released_while_pods_live(checked: Checked, policy: str) -> None:
    """The job of a reserved unit was resumed by hand."""
    checked.reserve()
    pod = build_pod("p", unit="default/u", namespace="default", quota="team", created=LATE_SECOND)
    checked.kit.shared.apply(Engine.on_pod, pod)
    if policy:
        checked.ask("a", "b", annotations={"koord-queue/stop-policy": policy})
    else:
        checked.say("b", "Rejected")
    checked.pass_time(5.0)
    assert (checked.kit.phase("u"), checked.reported) == ("Reserved", [])
    checked.kit.shared.apply(Engine.on_pod_gone, pod)
    checked.pass_time(2.0)
    assert checked.kit.phase("u") == ("Enqueued" if policy else "TimeoutBackoff")


@pytest.mark.parametrize(
    ("state", "why", "event"),
    [
        ("Rejected", Shortfall.REJECTED, "AdmissionCheckRejected"),
        ("Retry", Shortfall.RETRY, "AdmissionCheckRetry"),
    ],
)
def test_a_refusal_releases_the_quota(
    checked: Checked, state: str, why: Shortfall, event: str
) -> None:
    checked.reserve()
    checked.say("b", state, message="no such nodes")
    checked.pass_time()
    unit = checked.kit.unit("u")
    assert unit["status"]["phase"] == "TimeoutBackoff"
    assert unit["status"]["admissions"] == []
    assert unit["status"]["requeueState"]["count"] == 1
    assert 9.0 <= waits(checked) <= 11.0
    evicted = condition_of(unit, "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", "BackoffTimeout")
    assert evicted["message"] == f"admission check failed: b says {state} (no such nodes)"
    assert condition_of(unit, "QuotaReserved")["status"] == "False"
    assert checked.states() == {"a": "Pending", "b": state}, "they stay to be read"
    assert checked.failed == [("b", why)]
    assert [(n.reason, n.key, n.note) for n in checked.reported] == [
        (event, "default/u", evicted["message"])
    ]
    assert checked.kit.used() == 0
    assert checked.kit.woken


@pytest.mark.parametrize(("asked", "want"), [(3600, 3600.0), (3, 9.0)])
def test_it_waits_as_long_as_the_check_wants_at_least(
    checked: Checked, asked: int, want: float
) -> None:
    checked.reserve()
    checked.say("a", "Retry", requeueAfterSeconds=asked)
    checked.pass_time()
    assert want <= waits(checked) <= max(want, 11.0)


def test_each_time_it_waits_longer_up_to_a_quarter_of_an_hour(checked: Checked) -> None:
    checked.reserve()
    waited = []
    for _ in range(9):
        checked.say("a", "Retry")
        checked.pass_time()
        waited.append(waits(checked))
        state = {"count": len(waited)}
        checked.patch({"phase": "Enqueued", "requeueState": state, "conditions": []})
        checked.pass_time()
        checked.line.cycle.carry_out(checked.kit.dequeue())
        checked.kit.send()
        assert checked.states() == {"a": "Pending", "b": "Pending"}, "a new try starts anew"
    for seconds, base in zip(waited, (10, 20, 40, 80, 160, 320, 640, 900, 900), strict=True):
        assert 0.9 * base - 1 <= seconds <= 1.1 * base + 1


def test_a_reserved_unit_with_a_leftover_eviction_can_still_be_refused(
    checked: Checked,
) -> None:
    checked.reserve()
    checked.say("a", "Rejected")
    checked.pass_time()
    entries = [{**entry, "state": "Pending"} for entry in checked.entries()]
    checked.patch({"phase": "Reserved", "admissionChecks": entries})
    checked.pass_time()
    assert checked.kit.phase("u") == "Reserved", "it is not released while it is to leave"
    checked.say("a", "Rejected")
    checked.pass_time()
    assert checked.kit.phase("u") == "TimeoutBackoff"
    assert checked.status()["requeueState"]["count"] == 2


# --- timeouts -----------------------------------------------------------------------------------


def test_a_silent_check_times_out_and_is_named(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.pass_time(TIMEOUT - 5.0)
    assert checked.kit.phase("u") == "Reserved"
    checked.pass_time(10.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"
    assert checked.failed == [("b", Shortfall.TIMEOUT)]
    assert [notice.reason for notice in checked.reported] == ["AdmissionCheckTimeout"]
    message = condition_of(checked.kit.unit("u"), "Evicted")["message"]
    assert message == "admission checks not Ready within 600 s of the reservation: b"


@pytest.mark.parametrize(
    ("said", "phase"), [("20s", "TimeoutBackoff"), ("0", "Reserved"), ("soon", "Reserved")]
)
def test_the_queue_may_set_another_timeout(checked: Checked, said: str, phase: str) -> None:
    checked.reserve()
    checked.pass_time()
    checked.ask("a", "b", annotations={"koord-queue/admission-check-timeout": said})
    checked.pass_time(30.0)
    assert checked.kit.phase("u") == phase


def test_without_a_timeout_it_waits_forever(kit: ShellKit) -> None:
    checked = Checked(kit, timeout=0.0)
    checked.reserve()
    checked.pass_time(10.0)
    checked.kit.clock.jump_wall_clock(1e6)
    checked.pass_time(LONGEST_REST_SECONDS + 5.0)
    assert checked.kit.phase("u") == "Reserved"


def test_a_changed_clock_is_noticed(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time()
    checked.kit.clock.jump_wall_clock(TIMEOUT)
    checked.pass_time(LONGEST_REST_SECONDS + 1.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


def test_an_unreadable_time_of_the_reservation_does_not_stop_the_clock(
    checked: Checked,
) -> None:
    checked.reserve()
    checked.patch({"lastAllocateTime": None})
    checked.pass_time(TIMEOUT + 5.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


@pytest.mark.parametrize("ahead", [59, 3600, 73 * 365 * 86_400])
def test_a_future_time_of_the_reservation_does_not_stop_the_clock(
    checked: Checked, ahead: int
) -> None:
    """Another clock may be a minute ahead; a later time was edited by hand."""
    checked.reserve()
    until = rfc3339(checked.kit.clock.now() + timedelta(seconds=ahead))
    checked.patch({"lastAllocateTime": until})
    checked.pass_time(TIMEOUT - 5.0)
    assert checked.kit.phase("u") == "Reserved"
    checked.pass_time(70.0)
    assert checked.kit.phase("u") == "TimeoutBackoff"


# --- edits of the queue's checks ----------------------------------------------------------------


def test_a_removed_check_no_longer_counts(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.pass_time()
    checked.ask("a")
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"
    assert checked.states() == {"a": "Ready"}


def test_an_added_check_counts_and_gets_its_entry(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready", message="yes")
    checked.pass_time()
    checked.ask("c", "a", "b")
    checked.pass_time()
    assert checked.states() == {"c": "Pending", "a": "Ready", "b": "Pending"}
    assert checked.entries()[1]["message"] == "yes"
    checked.say("b", "Ready")
    checked.pass_time()
    assert checked.kit.phase("u") == "Reserved"
    checked.say("c", "Ready")
    checked.pass_time()
    assert checked.kit.phase("u") == "Dequeued"


def test_when_the_last_check_is_removed_every_unit_goes_on(checked: Checked) -> None:
    for name in ("u", "v"):
        checked.reserve(name)
    checked.pass_time()
    checked.ask()
    checked.pass_time()
    assert [checked.kit.phase(name) for name in ("u", "v")] == ["Dequeued", "Dequeued"]


def test_while_its_queue_is_missing_it_waits(checked: Checked) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.say("b", "Ready")
    checked.kit.shared.apply(Engine.on_queue_gone, "team")
    checked.pass_time(5.0)
    assert checked.kit.phase("u") == "Reserved"
    checked.kit.learn_queue("team")
    checked.pass_time(LONGEST_REST_SECONDS + 1.0)
    assert checked.kit.phase("u") == "Dequeued"


def test_labels_changed_while_it_is_reserved_count(checked: Checked) -> None:
    checked.reserve()
    checked.pass_time()
    red = {"matchLabels": {"team": "red"}}
    checked.kit.direct.patch(
        "queues",
        "team",
        {"spec": {"admissionChecks": [{"name": "a"}, {"name": "c", "labelSelector": red}]}},
        namespace="koord-queue",
    )
    checked.kit.learn_queue("team")
    checked.say("a", "Ready")
    checked.kit.direct.patch(
        "queueunits", "u", {"metadata": {"labels": {"team": "red"}}}, namespace="default"
    )
    checked.pass_time()
    assert checked.states() == {"a": "Ready", "c": "Pending"}


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_when_its_queue_is_stopped_it_is_requeued(checked: Checked, policy: str) -> None:
    checked.reserve()
    checked.say("a", "Ready")
    checked.pass_time()
    checked.ask("a", "b", annotations={"koord-queue/stop-policy": policy})
    checked.pass_time()
    assert (checked.kit.phase("u"), checked.kit.used()) == ("Enqueued", 0)
    assert checked.status()["message"] == "Enqueued: queue team is stopped"
    assert "requeueState" not in checked.status(), "it is not the unit's fault"
    refusal = refusal_of_unit(checked.kit.engine, "default/u")
    assert refusal is not None
    assert refusal.reason == "StoppedQueue"
    checked.ask("a", "b", annotations={"koord-queue/stop-policy": "None"})
    checked.line.cycle.carry_out(checked.kit.dequeue())
    checked.kit.send()
    assert checked.states() == {"a": "Pending", "b": "Pending"}


# --- after the admission ------------------------------------------------------------------------


def admit(checked: Checked, phase: str = "Dequeued", **spec: Any) -> None:
    checked.reserve(**spec)
    for name in ("a", "b"):
        checked.say(name, "Ready")
    checked.pass_time()
    checked.patch({"phase": phase})
    checked.pass_time()


@pytest.mark.parametrize("phase", ["Dequeued", "Running"])
def test_revoked_capacity_evicts_once(checked: Checked, phase: str) -> None:
    admit(checked, phase)
    checked.say("b", "Retry", message="capacity revoked")
    checked.pass_time()
    unit = checked.kit.unit("u")
    evicted = condition_of(unit, "Evicted")
    assert (evicted["status"], evicted["reason"]) == ("True", "AdmissionCheck")
    assert "b says Retry (capacity revoked)" in evicted["message"]
    assert unit["status"]["phase"] == phase, "it leaves when its job has stopped"
    assert checked.kit.used() == 1000
    written = checked.kit.writes()
    checked.pass_time(10.0)
    assert checked.kit.writes() == written
    assert checked.failed == [("b", Shortfall.RETRY)]


def test_a_check_added_later_does_not_affect_admitted_units(checked: Checked) -> None:
    admit(checked)
    written = checked.kit.writes()
    checked.ask("a", "b", "c")
    checked.pass_time(10.0)
    assert (checked.kit.phase("u"), checked.kit.writes()) == ("Dequeued", written)
