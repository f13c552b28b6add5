"""Which labels and annotations of a job its unit has, and that they follow the job's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext
from queue_controllers.decision.queue_unit_builder import build_sync, build_unit
from queue_controllers.jobframework.generic_job import JobFacts
from shared_api.objects.queue_unit import QueueUnit
from tests.job_situations import facts

QUOTA = "quota.scheduling.koordinator.sh/name"
COPIED = "koord-queue/copied-labels"
CONTEXT = ClusterContext()
RED = {"color": "red"}


def job(**labels: str) -> JobFacts:
    of = facts()
    meta = msgspec.structs.replace(of.metadata, labels={QUOTA: "gold", **labels})
    return msgspec.structs.replace(of, metadata=meta)


def made(of: JobFacts, phase: str, *, theirs: dict[str, str] | None = None) -> QueueUnit:
    """Return the unit that is created for a job, with labels that others have added since."""
    body = build_unit(of, CONTEXT, name="main")
    body["metadata"]["labels"] |= theirs or {}
    return msgspec.convert({**body, "status": {"phase": phase}}, QueueUnit)


def metadata(of: JobFacts, unit: QueueUnit) -> dict[str, Any]:
    waiting = unit.status.phase == "Enqueued"
    found: dict[str, Any] = build_sync(of, unit, CONTEXT, waiting=waiting).get("metadata", {})
    return found


@pytest.mark.parametrize("phase", ["Enqueued", "Reserved"])
@pytest.mark.parametrize(
    ("before", "now", "want"),
    [
        pytest.param(RED, RED, {}, id="nothing has changed: no write"),
        pytest.param(
            RED, {}, {"labels": {"color": None}, "annotations": {COPIED: None}}, id="the only one"
        ),
        pytest.param(
            {**RED, "size": "l"},
            {"size": "m"},
            {"labels": {"size": "m", "color": None}, "annotations": {COPIED: "size"}},
            id="one of two, and the other is changed",
        ),
        pytest.param(
            {},
            {**RED, "size": "l"},
            {"labels": {**RED, "size": "l"}, "annotations": {COPIED: "color,size"}},
            id="later labels are noted, to be removed with the job's",
        ),
        pytest.param(RED, {"color": "blue"}, {"labels": {"color": "blue"}}, id="another value"),
    ],
)
def test_labels_of_the_users_own_follow_the_job(
    phase: str, before: dict[str, str], now: dict[str, str], want: dict[str, Any]
) -> None:
    assert metadata(job(**now), made(job(**before), phase)) == want


@pytest.mark.parametrize("phase", ["Enqueued", "Reserved"])
def test_labels_that_others_put_on_a_unit_stay(phase: str) -> None:
    unit = made(job(**RED), phase, theirs={"theirs": "x"})
    assert metadata(job(), unit)["labels"] == {"color": None}


def test_labels_that_are_gone_from_the_unit_are_no_longer_noted() -> None:
    unit = made(job(**RED), "Enqueued")
    meta = msgspec.structs.replace(unit.metadata, labels={QUOTA: "gold"})
    unit = msgspec.structs.replace(unit, metadata=meta)
    assert metadata(job(), unit) == {"annotations": {COPIED: None}}


def test_a_unit_without_a_note_loses_nothing() -> None:
    """It was made by hand."""
    unit = made(job(), "Enqueued", theirs=RED)
    assert metadata(job(), unit) == {}


def test_our_labels_are_those_of_the_admission() -> None:
    ours = {"quota.scheduling.koordinator.sh/preemptible": "false", "koord-queue/queue-name": "x"}
    assert metadata(job(**ours), made(job(), "Reserved")) == {}
    assert metadata(job(), made(job(**ours), "Reserved")) == {}
    assert metadata(job(), made(job(**ours), "Enqueued")) == {"labels": dict.fromkeys(ours)}


def test_an_admitted_unit_keeps_its_labels() -> None:
    assert metadata(job(), made(job(**RED), "Dequeued")) == {}


def test_the_note_cannot_be_set_on_a_job() -> None:
    of = facts(annotations={COPIED: "theirs"})
    assert COPIED not in made(of, "Enqueued").metadata.annotations


def submitted(by: str, *, user: str = "ann", group: str = "vision") -> JobFacts:
    of = job(**{"koord-queue/user": user, "koord-queue/group": group})
    meta = msgspec.structs.replace(of.metadata, annotations={"koord-queue/submitted-by": by})
    return msgspec.structs.replace(of, metadata=meta)


def test_a_unit_says_who_submitted_its_job() -> None:
    unit = made(submitted("ann"), "Enqueued")
    labels = {key: unit.metadata.labels[key] for key in ("koord-queue/user", "koord-queue/group")}
    assert labels == {"koord-queue/user": "ann", "koord-queue/group": "vision"}
    assert unit.metadata.annotations["koord-queue/submitted-by"] == "ann"


def test_while_it_waits_it_says_what_its_job_says() -> None:
    """So a name that was written by hand, or noted before the job's, does not stay."""
    unit = made(submitted("bob", user="bob", group="speech"), "Enqueued")
    assert metadata(submitted("ann"), unit) == {
        "labels": {"koord-queue/user": "ann", "koord-queue/group": "vision"},
        "annotations": {"koord-queue/submitted-by": "ann"},
    }
    gone = metadata(job(), unit)
    assert gone["annotations"] == {"koord-queue/submitted-by": None}
    assert gone["labels"] == {"koord-queue/user": None, "koord-queue/group": None}
