"""Why a unit waits is written once it has waited, and again only if the reason changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from queue_insight.debug_api.answers import Answers
from queue_scheduler.cache.unit_state import UnitState
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Notice, Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import OrderKey
from queue_scheduler.queueing.pending_classes import PendingClasses
from queue_scheduler.reporting import pending_reason
from queue_scheduler.reporting.pending_reason import (
    FIRST_REPORT_SECONDS,
    FIRST_UNITS,
    LATER_AT_ONCE,
    LATER_PER_SECOND,
    MIN_REST_SECONDS,
    QUICK_STARTS,
    SWEEP_SECONDS,
    PendingReasonWriter,
    build_waiting_patch,
)
from shared_api.client.errors import Conflict, NotFound
from shared_api.client.resource_types import ELASTIC_QUOTAS, QUEUE_UNITS
from shared_api.client.writes import Rejected, Written
from shared_api.objects.meta import Timestamp
from shared_api.testing.object_builders import queue_unit, queue_unit_body
from shared_api.waiting_reasons import NEEDS_ACTION
from shared_api.well_known_labels import QUOTA_NAMESPACES
from shared_api.work_queue import WorkQueue
from tests.object_states import condition_of
from tests.queue_scheduler.fault_kit import raise_once
from tests.queue_scheduler.shell_kit import UNIT_STATUS, HeldWrites, ShellKit

EPSILON = 0.01


class Desk:
    """A kit with its reporter, and a worker that asks for decisions."""

    def __init__(self, kit: ShellKit) -> None:
        self.kit = kit
        self.reported: list[Notice] = []
        self.reporter = PendingReasonWriter(
            kit.shared,
            kit.dispatcher,
            kit,
            self.reported.append,
            kit.may_write,
            kit.clock,
            kit.work_queue(),
        )

    def add_unit(self, name: str, **more: Any) -> None:
        unit = self.kit.add_unit(name, **more)
        self.reporter.on_unit_seen(unit.metadata.key)

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps, decide what can be decided, report and send."""
        until = self.kit.clock.monotonic() + seconds
        while self.kit.clock.monotonic() < until:
            for queue in list(self.kit.engine.queues):
                for _ in range(10):
                    self.kit.decide(queue.name)
            self.reporter.step()
            self.kit.send()
            self.kit.clock.advance(0.1)


def reporter_of(
    kit: ShellKit, writes: HeldWrites, reported: list[Notice], due: WorkQueue[str] | None = None
) -> PendingReasonWriter:
    return PendingReasonWriter(
        kit.shared,
        writes,
        kit,
        reported.append,
        kit.may_write,
        kit.clock,
        due or kit.work_queue(),
    )


@pytest.fixture
def desk(kit: ShellKit) -> Desk:
    return Desk(kit)


def test_nothing_is_written_before_two_seconds_and_one_reason_after(desk: Desk) -> None:
    desk.add_unit("big", cpu=9)
    desk.pass_time(FIRST_REPORT_SECONDS - EPSILON)
    assert desk.kit.writes() == 0
    desk.pass_time(1.0)
    assert desk.kit.reason("big") == "ExceedsQuota"
    assert desk.kit.unit("big")["status"]["message"] == (
        "asks for more cpu than quota team may have at all"
    )
    assert desk.kit.writes() == 1


def test_an_unreadable_unit_is_reported_elsewhere(desk: Desk) -> None:
    desk.kit.unreadable.add("default/odd")
    desk.add_unit("odd", active=False)
    desk.pass_time(2 * SWEEP_SECONDS)
    assert desk.kit.writes() == 0
    desk.kit.unreadable.clear()
    desk.reporter.on_unit_seen("default/odd")
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    assert desk.kit.reason("odd") == "Inactive"


def test_a_sweep_does_not_report_on_units_that_just_arrived(desk: Desk) -> None:
    desk.pass_time(SWEEP_SECONDS - 0.3)
    desk.add_unit("big", cpu=9)
    desk.add_unit("lost", quota="nowhere")
    desk.pass_time(FIRST_REPORT_SECONDS - 0.2)
    assert desk.kit.writes() == 0
    desk.pass_time(1.0)
    assert desk.kit.reason("lost") == "NoQuota"


def test_a_sweep_goes_through_queues_without_the_lock(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of a hundred thousand takes a sixth of a second, without decisions meanwhile."""
    for number in range(2 * FIRST_UNITS):
        desk.add_unit(f"big-{number}", cpu=9)
    is_held: list[bool] = []
    shared_ask = SharedEngine.ask

    def ask(shared: SharedEngine, question: Any, *args: Any) -> Any:
        is_held.append(True)
        answer = shared_ask(shared, question, *args)
        is_held.pop()
        return answer

    in_order = PendingClasses.in_order
    seen: list[bool] = []

    def noted(queue: PendingClasses, quota: str | None = None) -> Iterator[OrderKey]:
        for key in in_order(queue, quota):
            seen.append(bool(is_held))
            yield key

    monkeypatch.setattr(SharedEngine, "ask", ask)
    monkeypatch.setattr(PendingClasses, "in_order", noted)
    desk.pass_time(SWEEP_SECONDS)
    sweeps = 2
    assert sum(seen) <= sweeps * FIRST_UNITS
    assert seen.count(False) >= 2 * FIRST_UNITS


def test_at_rest_nothing_more_is_written(desk: Desk) -> None:
    desk.add_unit("big", cpu=9)
    desk.add_unit("lost", quota="nowhere")
    desk.pass_time(4.0)
    assert desk.kit.writes() == 2
    for name in ("big", "lost"):
        desk.kit.learn(name)
    desk.pass_time(60.0)
    assert desk.kit.writes() == 2


def test_a_new_reason_is_one_more_write(desk: Desk) -> None:
    desk.add_unit("first", cpu=4)
    desk.pass_time(0.1)
    desk.add_unit("small", cpu=1)
    desk.pass_time(3.0)
    assert desk.kit.reason("small") == "OverQuotaMax"
    unit = desk.kit.engine.record("default/small")
    assert unit is not None
    quota = desk.kit.client.get(ELASTIC_QUOTAS, "default", "team")
    desk.kit.shared.apply(Engine.on_quota_gone, quota)
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert desk.kit.reason("small") == "NoQuota"
    desk.pass_time(30.0)
    assert desk.kit.writes() == 2


def test_a_unit_whose_queue_is_deleted_is_reported(desk: Desk) -> None:
    """It was in the queue and reported; its object does not change."""
    desk.add_unit("big", cpu=9)
    desk.pass_time(3.0)
    desk.kit.shared.apply(Engine.on_queue_gone, "team")
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert desk.kit.reason("big") == "NoQueue"


def test_a_unit_whose_queue_is_recreated_is_reported(desk: Desk) -> None:
    """The new queue counts its reasons anew, and may have reached the number of the old one."""
    desk.add_unit("big", cpu=9)
    desk.pass_time(3.0)
    desk.kit.shared.apply(Engine.on_queue_gone, "team")
    desk.pass_time(2 * SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert desk.kit.reason("big") == "NoQueue"
    desk.kit.learn_queue("team")
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert desk.kit.reason("big") == "ExceedsQuota"


def test_a_unit_that_moves_from_hold_to_a_sleeping_class_is_reported(desk: Desk) -> None:
    """The class was refused before, so the queue has no new reason."""
    kit = desk.kit
    for name in ("big", "as-big"):
        desk.add_unit(name, cpu=9)
    kit.direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    kit.direct.create(
        queue_unit_body("late", namespace="elsewhere", requests={"cpu": 9}, priority=-1)
    )
    reasons: list[str] = []
    for namespaces in ("[]", '["elsewhere"]'):
        body = {"metadata": {"annotations": {QUOTA_NAMESPACES: namespaces}}}
        kit.direct.patch("elasticquotas", "team", body, namespace="default")
        kit.shared.apply(Engine.on_quota, kit.client.get(ELASTIC_QUOTAS, "default", "team"))
        kit.shared.apply(Engine.on_queue_unit, kit.client.get(QUEUE_UNITS, "elsewhere", "late"))
        if not reasons:
            desk.reporter.on_unit_seen("elsewhere/late")
        desk.pass_time(2 * SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
        late = kit.direct.get("queueunits", "late", "elsewhere")
        reasons.append(condition_of(late, "QuotaReserved")["reason"])
    assert reasons == ["NoQuota", "ExceedsQuota"]


def test_a_unit_on_hold_for_another_reason_is_reported(desk: Desk) -> None:
    """Quota and queue arrive one after the other: the reason follows."""
    desk.add_unit("lost", quota="late", queue="shared")
    desk.pass_time(3.0)
    assert desk.kit.reason("lost") == "NoQuota"
    desk.kit.add_quota("late", 4)
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert desk.kit.reason("lost") == "NoQueue"
    desk.kit.add_queue("shared")
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert desk.kit.reason("lost") == "QuotaNotInQueue"


def test_a_unit_that_starts_in_time_is_never_written(desk: Desk) -> None:
    desk.add_unit("quick")
    desk.pass_time(10.0)
    assert desk.kit.writes() == 0


def test_a_follower_writes_nothing(desk: Desk) -> None:
    desk.kit.leads = False
    desk.add_unit("big", cpu=9)
    desk.pass_time(10.0)
    assert desk.kit.writes() == 0
    desk.kit.leads = True
    desk.pass_time(FIRST_REPORT_SECONDS + SWEEP_SECONDS + 0.2)
    assert desk.kit.reason("big") == "ExceedsQuota"


def test_a_follower_does_not_even_try(kit: ShellKit) -> None:
    held = HeldWrites()
    reporter = reporter_of(kit, held, reported=[])
    kit.leads = False
    reporter.on_unit_seen(kit.add_unit("lost", quota="nowhere").metadata.key)
    kit.clock.advance(10.0)
    assert reporter.step() == SWEEP_SECONDS
    assert held.writes == []


def test_a_follower_keeps_no_keys(kit: ShellKit) -> None:
    """It may follow for months, and every unit is another key."""
    due = kit.work_queue()
    reporter = reporter_of(kit, HeldWrites(), reported=[], due=due)
    kit.leads = False
    reporter.on_unit_seen(kit.add_unit("lost", quota="nowhere").metadata.key)
    reporter.step()
    assert due.seconds_until_ready() is None


def test_reports_wait_as_keys_while_many_are_in_flight(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_reason, "MAX_IN_FLIGHT", 2)
    held = HeldWrites()
    reporter = reporter_of(kit, held, reported=[])
    for name in ("a", "b", "c"):
        reporter.on_unit_seen(kit.add_unit(name, quota="nowhere").metadata.key)
    assert reporter.step() == FIRST_REPORT_SECONDS
    kit.clock.advance(FIRST_REPORT_SECONDS)
    assert reporter.step() == MIN_REST_SECONDS
    assert len(held.writes) == 2
    held.settle(Rejected(NotFound(404)))
    assert reporter.step() == MIN_REST_SECONDS
    assert [write.name for write in held.writes] == ["a", "b", "c"]


# --- which reason is written first ----------------------------------------------------------------


def crowd(desk: Desk, count: int, quota: str = "team") -> list[str]:
    """Fill a quota, and have this many units wait for it."""
    desk.add_unit(f"{quota}-runs", quota=quota, cpu=4)
    desk.pass_time(0.1)
    names = [f"{quota}-{number:05}" for number in range(count)]
    for name in names:
        desk.add_unit(name, quota=quota)
    return names


def told_reasons(desk: Desk, names: list[str]) -> list[str]:
    return [name for name in names if desk.kit.reason(name)]


def test_the_first_in_the_queue_are_reported_at_once_and_the_others_later(desk: Desk) -> None:
    names = crowd(desk, 100)
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    reported = told_reasons(desk, names)
    assert reported[:FIRST_UNITS] == names[:FIRST_UNITS]
    assert len(reported) <= FIRST_UNITS + LATER_AT_ONCE + LATER_PER_SECOND
    desk.pass_time(4.0)
    later = len(told_reasons(desk, names)) - len(reported)
    assert 4.0 * LATER_PER_SECOND - 2 <= later <= 4.0 * LATER_PER_SECOND + 2
    desk.pass_time(100 / LATER_PER_SECOND)
    assert told_reasons(desk, names) == names


def test_a_reason_that_a_user_has_to_mend_is_reported_before_all_others(desk: Desk) -> None:
    names = crowd(desk, 100)
    desk.add_unit("zz-big", cpu=9, priority=-5)
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    assert desk.kit.reason("zz-big") == "ExceedsQuota"
    assert len(told_reasons(desk, names)) < len(names)


def test_the_first_of_another_queue_do_not_wait_behind_a_crowd(desk: Desk) -> None:
    crowd(desk, 200)
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    desk.kit.add_quota("other", 4)
    (late,) = crowd(desk, 1, quota="other")
    desk.pass_time(SWEEP_SECONDS + 2 * FIRST_REPORT_SECONDS)
    assert desk.kit.reason(late) == "OverQuotaMax"


def raise_quota(desk: Desk, cpu: int, quota: str = "team") -> None:
    raised = {"spec": {"max": {"cpu": cpu}, "min": {"cpu": cpu}}}
    desk.kit.direct.patch("elasticquotas", quota, raised, namespace="default")
    fresh = desk.kit.client.get(ELASTIC_QUOTAS, "default", quota)
    desk.kit.shared.apply(Engine.on_quota, fresh)


@pytest.mark.parametrize(
    ("starts", "is_late"),
    [
        pytest.param(QUICK_STARTS, True, id="quick"),
        pytest.param(QUICK_STARTS - 1, False, id="slow"),
    ],
)
def test_a_newcomer_to_the_front_of_a_quick_queue_is_reported_if_it_still_waits_a_sweep_later(
    desk: Desk, starts: int, *, is_late: bool
) -> None:
    desk.kit.add_quota("other", 4)
    crowd(desk, 400, quota="other")
    names = crowd(desk, 60)
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    assert told_reasons(desk, names)[:FIRST_UNITS] == names[:FIRST_UNITS]
    raise_quota(desk, 4 + starts)
    desk.pass_time(0.2)
    desk.add_unit("urgent", cpu=starts + 1, priority=9)
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS - 1.0)
    assert (not desk.kit.reason("urgent")) is is_late
    behind = names[FIRST_UNITS : FIRST_UNITS + starts - 1]
    assert told_reasons(desk, behind) == behind, "not as many have started as stand before them"
    raise_quota(desk, 4 + 2 * starts)
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS)
    last = desk.kit.engine.record(f"default/{names[2 * starts - 1]}")
    assert last is not None
    assert last.state not in {UnitState.WAITING, UnitState.ON_HOLD}, "it starts units as before"
    assert desk.kit.reason("urgent")


def test_for_a_unit_that_starts_before_its_report_nothing_is_sent(desk: Desk) -> None:
    names = crowd(desk, 60)
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    waits = [name for name in names if not desk.kit.reason(name)]
    assert waits
    before = desk.kit.writes()
    raise_quota(desk, 400)
    for _ in range(len(names)):
        desk.kit.decide("team")
    assert all(desk.kit.phase(name) == "Enqueued" for name in names), "nothing is sent yet"
    desk.pass_time(60 / LATER_PER_SECOND)
    assert desk.kit.writes() == before, "these decisions are not carried out here"
    assert desk.reporter.count_waiting() == 0


def test_a_unit_that_left_is_forgotten_at_once(desk: Desk) -> None:
    names = crowd(desk, 60)
    desk.pass_time(FIRST_REPORT_SECONDS + 0.5)
    desk.reporter.step()
    before = desk.reporter.count_waiting()
    assert before > 0
    desk.reporter.on_unit_left(f"default/{names[-1]}")
    desk.reporter.on_unit_left("default/never-seen")
    desk.reporter.step()
    assert desk.reporter.count_waiting() == before - 1


def test_every_event_has_a_reason_that_is_written_at_once() -> None:
    assert {each.value for each in pending_reason.REASONS_WITH_EVENT} <= NEEDS_ACTION
    assert {each.value for each in Reason} >= NEEDS_ACTION


def test_a_unit_that_was_not_asked_yet_has_no_reason(desk: Desk) -> None:
    desk.add_unit("early")
    for _ in range(100):
        desk.reporter.step()
        desk.kit.send()
        desk.kit.clock.advance(0.1)
    assert desk.kit.writes() == 0


def test_a_conflict_waits_for_the_fresh_object(desk: Desk) -> None:
    desk.add_unit("big", cpu=9)
    changed = {"metadata": {"annotations": {"somebody": "was here"}}}
    desk.kit.direct.patch("queueunits", "big", changed, namespace="default")
    desk.pass_time(4.0)
    assert desk.kit.reason("big") == ""
    fresh = desk.kit.learn("big")
    desk.reporter.on_unit_seen(fresh.metadata.key)
    desk.pass_time(4.0)
    assert desk.kit.reason("big") == "ExceedsQuota"


def test_a_write_of_unknown_outcome_is_checked_again(desk: Desk) -> None:
    desk.kit.server.faults.fail(503, times=5, match=UNIT_STATUS)
    desk.add_unit("big", cpu=9)
    desk.pass_time(3.0)
    assert desk.kit.reason("big") == ""
    desk.pass_time(SWEEP_SECONDS + 1.0)
    assert desk.kit.reason("big") == "ExceedsQuota"


def told_of(desk: Desk) -> list[tuple[str, str, str]]:
    return [(notice.kind, notice.key, notice.reason) for notice in desk.reported]


def test_a_reason_that_a_user_has_to_mend_is_reported_once(desk: Desk) -> None:
    desk.kit.add_quota("other", 4)
    desk.add_unit("first", cpu=4)
    desk.pass_time(0.1)
    desk.add_unit("small", cpu=1)
    desk.add_unit("invalid", cpu=-1)
    desk.add_unit("lost", quota="nowhere")
    desk.add_unit("astray", queue="other")
    desk.add_unit("queueless", queue="none")
    desk.add_unit("big", cpu=9)
    desk.pass_time(60.0)
    for name in ("small", "invalid", "lost", "astray", "queueless", "big"):
        desk.reporter.on_unit_seen(desk.kit.learn(name).metadata.key)
    desk.pass_time(60.0)
    assert told_of(desk) == [
        ("QueueUnit", "default/invalid", "InvalidDemand"),
        ("QueueUnit", "default/lost", "NoQuota"),
        ("QueueUnit", "default/astray", "QuotaNotInQueue"),
        ("QueueUnit", "default/queueless", "NoQueue"),
        ("QueueUnit", "default/big", "ExceedsQuota"),
    ]
    for notice in desk.reported:
        unit = desk.kit.unit(notice.key.removeprefix("default/"))
        assert notice.note == unit["status"]["message"]
        assert notice.uid == unit["metadata"]["uid"]


def test_another_reason_is_reported_again(desk: Desk) -> None:
    desk.add_unit("lost", quota="late", queue="shared")
    desk.pass_time(3.0)
    desk.kit.add_quota("late", 4)
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS + 0.2)
    assert [reason for _, _, reason in told_of(desk)] == ["NoQuota", "NoQueue"]


def test_an_unwritten_reason_is_not_reported(kit: ShellKit) -> None:
    """Another replica, or a newer object: the writer of the reason reports it."""
    held, reported = HeldWrites(), list[Notice]()
    reporter = reporter_of(kit, held, reported)
    reporter.step()
    reporter.on_unit_seen(kit.add_unit("lost", quota="nowhere").metadata.key)
    kit.clock.advance(FIRST_REPORT_SECONDS)
    reporter.step()
    held.settle(Rejected(Conflict(409)))
    assert len(held.writes) == 1
    assert reported == []


def test_a_deleted_queue_is_reported_no_faster_than_it_is_written(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_reason, "MAX_IN_FLIGHT", 2)
    held, reported = HeldWrites(), list[Notice]()
    reporter = reporter_of(kit, held, reported)
    reporter.step()
    units = [kit.add_unit(f"u{number}", cpu=9) for number in range(10)]
    kit.shared.apply(Engine.on_queue_gone, "team")
    for unit in units:
        reporter.on_unit_seen(unit.metadata.key)
    kit.clock.advance(FIRST_REPORT_SECONDS)
    for number in range(5):
        reporter.step()
        assert len(reported) == number
        held.settle(Written(units[number]))


def test_a_unit_from_before_this_process_decides_has_two_seconds_from_then_on(
    desk: Desk,
) -> None:
    desk.kit.leads = False
    desk.add_unit("early", quota="late")
    desk.pass_time(SWEEP_SECONDS)
    desk.kit.leads = True
    desk.pass_time(FIRST_REPORT_SECONDS - 0.2)
    desk.kit.add_quota("late", 4)
    desk.pass_time(SWEEP_SECONDS + FIRST_REPORT_SECONDS)
    assert desk.kit.writes() == 0
    assert desk.reported == []


def test_the_patch_has_reason_and_message_without_numbers() -> None:
    meta = {"resourceVersion": "7"}
    unit = queue_unit("a", quota="team", metadata=meta)
    refusal = Refusal(
        reason=Reason.OVER_QUOTA_MAX, quota="team", resource="cpu", limit=4, used=3, requested=2
    )
    patch = build_waiting_patch(unit, refusal, Timestamp("2026-11-01T10:00:00Z"))
    assert patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {
            "message": "needs more cpu than the max of quota team leaves",
            "lastUpdateTime": "2026-11-01T10:00:00Z",
            "conditions": [
                {
                    "type": "QuotaReserved",
                    "status": "False",
                    "reason": "OverQuotaMax",
                    "message": "needs more cpu than the max of quota team leaves",
                    "lastTransitionTime": "2026-11-01T10:00:00Z",
                }
            ],
        },
    }


def test_a_report_that_raises_is_made_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.add_unit("big", cpu=9)
    desk.add_unit("huge", cpu=10)
    raise_once(monkeypatch, pending_reason, "build_waiting_patch")
    desk.pass_time(FIRST_REPORT_SECONDS + 1.0)
    reasons = {desk.kit.reason(name) for name in ("big", "huge")}
    assert reasons == {"", "ExceedsQuota"}, "the other is reported at once"
    desk.pass_time(SWEEP_SECONDS - FIRST_REPORT_SECONDS - 1.0)
    assert [desk.kit.reason(name) for name in ("big", "huge")] == ["ExceedsQuota"] * 2


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param({"cpu": 2}, id="it does not fit"),
        pytest.param({"cpu": 9}, id="it is too large"),
        pytest.param({"quota": "gone"}, id="on hold"),
    ],
)
def test_what_is_written_opens_the_explanation(kit: ShellKit, unit: dict[str, Any]) -> None:
    desk = Desk(kit)
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    desk.add_unit("u", **unit)
    kit.decide()
    desk.pass_time(FIRST_REPORT_SECONDS + EPSILON)
    desk.pass_time(FIRST_REPORT_SECONDS + EPSILON)
    answers = Answers(StateAnswers(kit.shared, lambda: True, kit.clock.now))
    reported = answers.explain("default", "u").summary
    _, _, why = reported.partition(": ")
    written = condition_of(kit.unit("u"), "QuotaReserved")
    assert written["message"], reported
    assert why.startswith(str(written["message"]))
