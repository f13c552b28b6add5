"""What each act on a unit changes: the job where the unit follows it, and else the unit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from koord_queue.acts.change import Already, AnyObject, Change, On, Target
from koord_queue.acts.on_units import (
    activate,
    deactivate,
    hold,
    move,
    release,
    requeue,
    set_priority,
)
from koord_queue.errors import CommandError
from shared_api.objects.queue import Queue
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import (
    job_body,
    queue_body,
    queue_unit_body,
    to_struct,
    with_status,
)

Json = dict[str, Any]
Act = Callable[[Target], Change | Already]

PRIORITY = "scheduling.x-k8s.io/priority"
ACTIVE = "scheduling.x-k8s.io/active"
QUEUE = "koord-queue/queue-name"
BLOCK = "koord-queue/block-for-test"
MANAGED = {"koord-queue/managed-by": "koord-queue-controllers"}
MARK = "koord-queue/backoff-limit-reached"
LIMIT = {MARK: "true"}
NOW = datetime(2026, 11, 1, 10, tzinfo=UTC)


def unit(phase: str = "Enqueued", *, notes: Json | None = None, **spec: Any) -> QueueUnit:
    spec = {"queue": "day", **spec}
    body = queue_unit_body("train", metadata={"annotations": notes or {}}, **spec)
    return to_struct(QueueUnit, with_status(body, phase=phase))


def of_job(
    phase: str = "Enqueued",
    *,
    labels: Json | None = None,
    said: Json | None = None,
    notes: Json | None = None,
    kind: str = "Job",
    **spec: Any,
) -> Target:
    """Return a unit of the controllers with its job; `said`: annotations of the job."""
    reference = {"apiVersion": "batch/v1", "kind": kind, "name": "train", "namespace": "default"}
    found = unit(phase, notes={**MANAGED, **(notes or {})}, consumerRef=reference, **spec)
    metadata = {"labels": labels or {}, "annotations": said or {}}
    job = to_struct(AnyObject, job_body("train", metadata=metadata))
    return Target(named="job/train", unit=found, job=job)


def by_hand(phase: str = "Enqueued", **more: Any) -> Target:
    return Target(named="unit/train", unit=unit(phase, **more))


def to_priority(number: int | None) -> Act:
    return lambda target: set_priority(target, number)


def to_queue(name: str) -> Act:
    return lambda target: move(target, name)


def annotation(key: str, value: str | None) -> Json:
    return {"metadata": {"annotations": {key: value}}}


CHANGES = [
    pytest.param(
        to_priority(7), of_job(), On.JOB, annotation(PRIORITY, "7"),
        ("priority", "job/train", "--reset"), id="a priority is said by the job",
    ),
    pytest.param(
        to_priority(-7), of_job(said={PRIORITY: "3"}, priority=3), On.JOB,
        annotation(PRIORITY, "-7"), ("priority", "job/train", "--to", "3"),
        id="the old priority is named to undo it",
    ),
    pytest.param(
        to_priority(None), of_job(said={PRIORITY: "3"}), On.JOB, annotation(PRIORITY, None),
        ("priority", "job/train", "--to", "3"), id="a reset takes the annotation away",
    ),
    pytest.param(
        to_priority(7), by_hand(), On.UNIT, {"spec": {"priority": 7}},
        ("priority", "unit/train", "--to", "0"), id="a unit without a job has a priority itself",
    ),
    pytest.param(
        to_queue("night"), of_job("Running"), On.JOB, {"metadata": {"labels": {QUEUE: "night"}}},
        ("move", "job/train", "--to", "day"), id="a job is moved by its label",
    ),
    pytest.param(
        to_queue("night"), by_hand(), On.UNIT,
        {"metadata": {"labels": {QUEUE: "night"}}, "spec": {"queue": "night"}},
        ("move", "unit/train", "--to", "day"), id="a unit is moved by label and field",
    ),
    pytest.param(
        hold, of_job("TimeoutBackoff"), On.JOB, annotation(BLOCK, "true"), ("release", "job/train"),
        id="a job that waits is held",
    ),
    pytest.param(
        hold, by_hand(), On.UNIT, annotation(BLOCK, "true"), ("release", "unit/train"),
        id="a unit without a job is held itself",
    ),
    pytest.param(
        release, of_job("Running", said={BLOCK: "true"}), On.JOB, annotation(BLOCK, None),
        ("hold", "job/train"), id="a hold is taken back",
    ),
    pytest.param(
        release, of_job(said={"kube-queue/block-for-test": "true"}), On.JOB,
        annotation("kube-queue/block-for-test", None), ("hold", "job/train"),
        id="a hold by the older key is taken back",
    ),
    pytest.param(
        deactivate, of_job("Running"), On.JOB, annotation(ACTIVE, "false"),
        ("activate", "job/train"), id="a job is deactivated",
    ),
    pytest.param(
        deactivate, of_job("Running", kind="StatefulSet"), On.UNIT, {"spec": {"active": False}},
        ("activate", "job/train"), id="of what is made of pods, the unit is deactivated",
    ),
    pytest.param(
        deactivate, by_hand(), On.UNIT, {"spec": {"active": False}}, ("activate", "unit/train"),
        id="a unit without a job is deactivated itself",
    ),
    pytest.param(
        activate, of_job(active=False), On.JOB, annotation(ACTIVE, "true"),
        ("deactivate", "job/train"), id="a job is activated",
    ),
    pytest.param(
        activate,
        of_job(active=False, said={ACTIVE: "true"}, notes=LIMIT),
        On.JOB, annotation(ACTIVE, "True"), ("deactivate", "job/train"),
        id="after the backoff limit only another value counts",
    ),
    pytest.param(
        activate,
        of_job(active=False, said={ACTIVE: "true"}, notes={**LIMIT, MARK: "True"}),
        On.JOB, annotation(ACTIVE, "true"), ("deactivate", "job/train"),
        id="and another one the next time",
    ),
    pytest.param(
        activate, by_hand(active=False), On.UNIT, {"spec": {"active": True}},
        ("deactivate", "unit/train"), id="a unit without a job is activated itself",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("act", "target", "on", "patch", "undo"), CHANGES)
def test_an_act_changes(
    act: Act, target: Target, on: On, patch: Json, undo: tuple[str, ...]
) -> None:
    got = act(target)
    assert isinstance(got, Change)
    assert (got.on, got.patch, got.undo) == (on, patch, undo)
    assert got.is_guarded is (on is On.UNIT), "what the unit says, its state may have outrun"


ALREADY = [
    (to_priority(3), of_job(said={PRIORITY: "3"}, priority=3), "already so"),
    (to_priority(None), of_job(), "already so"),
    (to_priority(0), by_hand(), "already so"),
    (to_queue("day"), of_job(labels={QUEUE: "day"}), "already in queue day"),
    (hold, of_job(said={BLOCK: "true"}, notes={BLOCK: "true"}), "already on hold"),
    (hold, by_hand(notes={BLOCK: "true"}), "already on hold"),
    (release, of_job(), "not on hold"),
    (deactivate, of_job(active=False), "already inactive"),
    (
        deactivate,
        of_job(active=False, said={ACTIVE: "true"}, notes=LIMIT),
        "already inactive",
    ),
    (activate, of_job(), "already active"),
    (activate, of_job(active=True, said={ACTIVE: "true"}), "already active"),
    (lambda target: requeue(target, NOW), of_job(), "already waits (Enqueued)"),
]  # fmt: skip


@pytest.mark.parametrize(("act", "target", "said"), ALREADY)
def test_what_is_already_so_is_not_written(act: Act, target: Target, said: str) -> None:
    assert act(target) == Already(outcome=said)


REFUSED = [
    (hold, of_job("Dequeued"), "has been admitted"),
    (hold, of_job("Succeed"), "has ended"),
    (deactivate, by_hand("Failed"), "has ended"),
    (to_priority(2**31), of_job(), "no whole number of 32 bits"),
    (to_priority(None), by_hand(), "has no job"),
    (to_priority(1), of_job(kind="PodGroup"), "is that of its pods, since it is a PodGroup"),
    (hold, Target(named="x", unit=unit(notes=MANAGED)), "the job of x is gone"),
]


@pytest.mark.parametrize(("act", "target", "why"), REFUSED)
def test_an_act_that_would_not_last_is_refused(act: Act, target: Target, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        act(target)


def test_a_write_is_pending_until_the_controllers_have_carried_it_over() -> None:
    change = hold(of_job())
    assert isinstance(change, Change)
    assert change.counts is not None
    got = [change.counts(unit()), change.counts(unit(notes={BLOCK: "true"}))]
    assert got == [False, True]


def test_a_hold_that_is_not_carried_over_yet_is_written_again() -> None:
    assert isinstance(hold(of_job(said={BLOCK: "true"})), Change)


def test_a_requeue_asks_for_an_eviction_and_keeps_other_conditions() -> None:
    other = {"type": "Other", "status": "True", "reason": "R", "message": ""}
    body = with_status(queue_unit_body("train"), phase="Running", conditions=[other])
    got = requeue(Target(named="unit/train", unit=to_struct(QueueUnit, body)), NOW)
    assert isinstance(got, Change)
    assert (got.on, got.is_guarded) == (On.UNIT_STATUS, True)
    conditions = got.patch["status"]["conditions"]
    assert [(each["type"], each["status"], each["reason"]) for each in conditions] == [
        ("Other", "True", "R"),
        ("Evicted", "True", "RequeueRequested"),
    ]


def test_a_queue_that_does_not_take_the_quota_is_said() -> None:
    quota = {"quota.scheduling.koordinator.sh/name": "team"}
    body = queue_unit_body("train", metadata={"labels": quota}, queue="day")
    target = Target(named="unit/train", unit=to_struct(QueueUnit, body))
    night = to_struct(Queue, queue_body("night"))
    got = move(target, "night", night)
    assert isinstance(got, Change)
    assert got.note.startswith("queue night does not take the quota of unit/train")
    unknown = move(target, "night", None)
    assert isinstance(unknown, Change)
    assert unknown.note == ""
