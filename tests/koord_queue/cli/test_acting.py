"""Acts while others act: a unit starts just then, an object changes, the controllers are slow."""

from __future__ import annotations

from typing import Any

import click
import pytest

from koord_queue.acts.on_units import deactivate, hold
from koord_queue.cli.acting import Acting
from koord_queue.errors import CommandError
from shared_api.testing.object_builders import consumer_ref, job_body, queue_unit_body
from tests.koord_queue.session.played_session import PlayedSession

Json = dict[str, Any]

BLOCK = "koord-queue/block-for-test"
MANAGED = {"koord-queue/managed-by": "koord-queue-controllers"}


@pytest.fixture
def session() -> PlayedSession:
    """A job with a unit, and a unit without a job; both wait."""
    found = PlayedSession()
    job = found.server.direct.create(job_body("train"))
    notes: Json = {"annotations": dict(MANAGED)}
    unit = queue_unit_body("train", metadata=notes, consumerRef=consumer_ref(job))
    found.server.direct.create_all([unit, queue_unit_body("solo")])
    return found


@pytest.fixture(autouse=True)
def command() -> Any:
    """The command that acts: its program is named where something can be undone."""
    with click.Context(click.Command("hold"), info_name="koord-queue") as context:
        yield context


def started(session: PlayedSession, name: str) -> None:
    patch = {"status": {"phase": "Dequeued"}}
    place: Json = {"namespace": "default", "subresource": "status"}
    session.server.direct.patch("queueunits", name, patch, **place)


def carried_over(session: PlayedSession) -> None:
    patch = {"metadata": {"annotations": {BLOCK: "true"}}}
    session.server.direct.patch("queueunits", "train", patch, namespace="default")


def notes_on(session: PlayedSession, plural: str, name: str) -> Json:
    found: Json = session.server.direct.get(plural, name, "default")["metadata"]
    return dict(found.get("annotations", {}))


def test_a_hold_waits_until_the_controllers_have_carried_it_over(session: PlayedSession) -> None:
    session.clock.meanwhile = lambda: carried_over(session)
    Acting(session, dry_run=False).on_units(["job/train"], hold)
    assert session.out_text.getvalue() == "job.batch/train on hold\n"
    assert session.err_text.getvalue() == "note: to undo: koord-queue release job/train\n"


def test_a_hold_of_a_job_that_has_just_started_is_taken_back(session: PlayedSession) -> None:
    session.clock.meanwhile = lambda: started(session, "train")
    with pytest.raises(CommandError, match="started before it could be put on hold"):
        Acting(session, dry_run=False).on_units(["job/train"], hold)
    assert BLOCK not in notes_on(session, "jobs", "train")


def test_a_unit_that_starts_before_the_write_is_not_held(session: PlayedSession) -> None:
    session.before_write = lambda: started(session, "solo")
    with pytest.raises(CommandError, match="solo has been admitted, and hold only keeps"):
        Acting(session, dry_run=False).on_units(["solo"], hold)
    assert BLOCK not in notes_on(session, "queueunits", "solo")


def test_a_unit_that_has_changed_is_looked_at_again(session: PlayedSession) -> None:
    patch = {"metadata": {"labels": {"a": "b"}}}
    session.before_write = lambda: change(session, patch)
    Acting(session, dry_run=False).on_units(["solo"], deactivate)
    assert session.server.direct.get("queueunits", "solo", "default")["spec"]["active"] is False


def change(session: PlayedSession, patch: Json) -> None:
    session.server.direct.patch("queueunits", "solo", patch, namespace="default")


def test_what_is_not_carried_over_is_said(session: PlayedSession) -> None:
    Acting(session, dry_run=False).on_units(["job/train"], hold)
    assert "the unit of job/train does not say so yet" in session.err_text.getvalue()


def test_a_unit_that_keeps_changing_is_given_up(session: PlayedSession) -> None:
    count = iter(range(100))

    def again() -> None:
        change(session, {"metadata": {"labels": {"a": str(next(count))}}})
        session.before_write = again

    session.before_write = again
    with pytest.raises(CommandError, match="solo keeps changing"):
        Acting(session, dry_run=False).on_units(["solo"], hold)


def test_a_dry_run_changes_nothing_and_waits_for_nothing(session: PlayedSession) -> None:
    Acting(session, dry_run=True).on_units(["job/train", "solo"], hold)
    assert session.out_text.getvalue().splitlines() == [
        "job.batch/train on hold (dry run)",
        f"  annotation {BLOCK}: true",
        "queueunit.scheduling.x-k8s.io/solo on hold (dry run)",
        f"  annotation {BLOCK}: true",
    ]
    assert session.err_text.getvalue() == (
        "note: which units would then start, wait or be evicted is not known: only the scheduler's"
        " debug API foretells it, and nobody answers what-if.\n"
    )
    assert BLOCK not in notes_on(session, "jobs", "train")
    assert BLOCK not in notes_on(session, "queueunits", "solo")


@pytest.mark.parametrize("named", ["", "queue/", "unit/night"])
def test_what_names_no_queue_is_refused(session: PlayedSession, named: str) -> None:
    with pytest.raises(CommandError, match="names no queue"):
        Acting(session, dry_run=False).on_queues([named], "Hold")
