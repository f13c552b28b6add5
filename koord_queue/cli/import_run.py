"""What `koord-queue import` does when it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord_queue.errors import CommandError
from koord_queue.importing.kueue_plan import plan_import
from koord_queue.importing.kueue_source import FoundJobs, read_cluster, read_files, read_jobs
from koord_queue.importing.plan import Lost, Plan
from koord_queue.importing.writing import PlanWriter, Step, find_uncharged, wait_until_adopted
from koord_queue.session.session import Session
from koord_queue.show.documents import show_document
from koord_queue.show.printer import printable

COLUMNS: Final = ("FROM", "BECOMES", "WITH")
LOST_COLUMNS: Final = ("NOT-CARRIED-OVER", "FIELD", "WHY")
JOB_COLUMNS: Final = ("JOB", "STATE", "QUOTA")
MOST_NAMED: Final = 20
"""Jobs that are left alone are named up to this number: a screen of them."""


def run(session: Session, *, files: tuple[str, ...], jobs: bool, apply: bool, form: str) -> None:
    """Show or write what objects become; the arguments are the options of the command."""
    objects = read_files(files) if files else read_cluster(session.cluster())
    plan = plan_import(objects, session.choice.system_namespace)
    found = read_jobs(session.cluster(), objects, plan) if jobs else None
    if apply:
        _apply(session, plan, found)
    elif form == "table":
        _show(session, plan, found)
    else:
        _show_objects(session, plan, form)
        _note_left_alone(session, found.lost if found else ())
    if apply or not files:
        _note_left(session, plan)


def _show_objects(session: Session, plan: Plan, form: str) -> None:

    items = [each for each in plan.objects if each["kind"] != "Namespace"]
    show_document(session.out, {"apiVersion": "v1", "kind": "List", "items": items}, form)
    _note_lost(session, plan.lost)


def _show(session: Session, plan: Plan, found: FoundJobs | None) -> None:
    out = session.out
    rows = [(_one(each.source), _one(each.target), each.how) for each in plan.became]
    out.table(COLUMNS, rows)
    lost = [*plan.lost, *(found.lost if found else ())]
    _show_lost(session, lost)
    if found is not None:
        _note_unread(session, found)
        if found.moved:
            out.line()
            rows = [(_one(each.source), each.state, each.quota) for each in found.moved]
            out.table(JOB_COLUMNS, rows)


def _show_lost(session: Session, lost: Sequence[Lost]) -> None:
    """Write what is lost: sentences on a terminal, which would cut a table, else rows."""
    out = session.out
    if not lost:
        return
    out.line()
    if not out.is_terminal:
        out.table(LOST_COLUMNS, [(_one(each.source), each.field, each.why) for each in lost])
        return
    out.line(out.style("Not carried over:", "bold"))
    for each in lost:
        out.paragraph(f"{each.source}, {each.field}: {each.why}", "  ")


def _one(text: str) -> str:
    """Return kind and name as one word, so that cells have no spaces."""
    return text.replace(" ", "/", 1)


def _apply(session: Session, plan: Plan, found: FoundJobs | None) -> None:

    writer = PlanWriter(session.cluster())
    steps = writer.compare(plan.objects)
    untried = writer.dry_run(steps)
    if untried:
        session.out.note(untried)
    for job in found.moved if found else ():
        writer.move(job, dry_run=True)
    for step in writer.write(steps):
        _print_step(session, step)
    _note_lost(session, plan.lost)
    if found is not None:
        _move(session, writer, found)


def _print_step(session: Session, step: Step) -> None:

    session.out.line(printable(f"{step.shown} {step.state.value}"))
    session.out.flush()


def _move(session: Session, writer: PlanWriter, found: FoundJobs) -> None:
    """Take over jobs that run, and when they are charged, those that wait."""
    running = [job for job in found.moved if job.state == "runs"]
    for job in running:
        writer.move(job, dry_run=False)
    running += find_uncharged(session.cluster(), found.running)
    late = wait_until_adopted(session.cluster(), running, session.clock)
    for job in running:
        if job not in late:
            session.out.line(printable(f"{_one(job.source)} goes on, charged to {job.quota}"))
    if late:
        names = ", ".join(job.source for job in late[:3])
        raise CommandError(
            f"{len(late)} jobs that run were not adopted ({names}), so those that wait are left",
            "Do the controllers run? Their log and the events of the jobs say more. Run the command"
            " again: it waits for these again.",
        )
    for job in found.moved:
        if job.state != "runs":
            writer.move(job, dry_run=False)
            session.out.line(printable(f"{_one(job.source)} waits, in quota {job.quota}"))
    _note_unread(session, found)
    _note_left_alone(session, found.lost)


def _note_left_alone(session: Session, lost: Sequence[Lost]) -> None:
    """Name the jobs that were not taken over: they wait until their owner acts."""
    for each in lost[:MOST_NAMED]:
        session.out.note(f"{_one(each.source)} is left alone, {each.field}: {each.why}")
    if len(lost) > MOST_NAMED:
        more = len(lost) - MOST_NAMED
        session.out.note(f"{more} more are left alone: the command without --apply lists them")


def _note_left(session: Session, plan: Plan) -> None:

    for each in PlanWriter(session.cluster()).find_left(plan.objects):
        session.out.note(each)


def _note_lost(session: Session, lost: Sequence[Lost]) -> None:
    if lost:
        count = "1 thing was" if len(lost) == 1 else f"{len(lost)} things were"
        session.out.note(f"{count} not carried over: the command without --apply lists them")


def _note_unread(session: Session, found: FoundJobs) -> None:
    for each in found.unread:
        session.out.note(f"jobs of a kind were not read: {each}")
