"""Acts on jobs and queues: `hold`, `move`, `drain` and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from koord_queue.acts import on_queues, on_units
from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.cli.acting import Acting
    from koord_queue.session.session import Session

_JOBS: Final = click.argument("targets", metavar="JOB...", nargs=-1, required=True)
_QUEUES: Final = click.argument("targets", metavar="QUEUE...", nargs=-1, required=True)
_DRY_RUN: Final = click.option(
    "--dry-run", is_flag=True, help="Change nothing: say what it would set off."
)


@click.command()
@_JOBS
@click.option("--to", "number", type=int, metavar="NUMBER", help="The new priority.")
@click.option("--reset", is_flag=True, help="Take it from the PriorityClass again.")
@_DRY_RUN
@options.reach
def priority(
    session: Session, *, targets: Sequence[str], number: int | None, reset: bool, dry_run: bool
) -> None:
    """Set the priority of jobs: --to a number, or --reset."""
    if (number is None) is not reset:
        raise click.UsageError("Say either --to NUMBER or --reset.")
    _acting(session, dry_run=dry_run).on_units(
        targets, lambda target: on_units.set_priority(target, number)
    )


@click.command()
@_JOBS
@click.option("--to", "queue", required=True, metavar="QUEUE", help="The queue.")
@_DRY_RUN
@options.reach
def move(session: Session, *, targets: Sequence[str], queue: str, dry_run: bool) -> None:
    """Move jobs to another queue; those that run, when they wait again."""
    from koord_queue.cli.acting import read_queue  # noqa: PLC0415 - as `_acting`

    known = read_queue(session, queue)
    _acting(session, dry_run=dry_run).on_units(
        targets, lambda target: on_units.move(target, queue, known)
    )


@click.command()
@_JOBS
@_DRY_RUN
@options.reach
def hold(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Keep waiting jobs from starting; what runs is left alone."""
    _acting(session, dry_run=dry_run).on_units(targets, on_units.hold)


@click.command()
@_JOBS
@_DRY_RUN
@options.reach
def release(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Let jobs that are on hold start again."""
    _acting(session, dry_run=dry_run).on_units(targets, on_units.release)


@click.command()
@_JOBS
@_DRY_RUN
@options.reach
def deactivate(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Stop jobs, and keep them from waiting until they are activated."""
    _acting(session, dry_run=dry_run).on_units(targets, on_units.deactivate)


@click.command()
@_JOBS
@_DRY_RUN
@options.reach
def activate(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Have jobs wait again that are inactive, by whatever has deactivated them."""
    _acting(session, dry_run=dry_run).on_units(targets, on_units.activate)


@click.command()
@_JOBS
@_DRY_RUN
@options.reach
def requeue(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Evict jobs that have started, and have them wait again."""
    now = session.clock.now
    _acting(session, dry_run=dry_run).on_units(
        targets, lambda target: on_units.requeue(target, now())
    )


@click.command()
@_QUEUES
@_DRY_RUN
@options.reach
def stop(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Let queues start no more jobs; what runs goes on."""
    _acting(session, dry_run=dry_run).on_queues(targets, on_queues.HOLD)


@click.command()
@_QUEUES
@_DRY_RUN
@options.reach
def drain(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Let queues start no more jobs, and evict those that have started."""
    _acting(session, dry_run=dry_run).on_queues(targets, on_queues.DRAIN)


@click.command()
@_QUEUES
@_DRY_RUN
@options.reach
def resume(session: Session, *, targets: Sequence[str], dry_run: bool) -> None:
    """Let queues start jobs again."""
    _acting(session, dry_run=dry_run).on_queues(targets, on_queues.NONE)


def _acting(session: Session, *, dry_run: bool) -> Acting:
    from koord_queue.cli.acting import Acting  # noqa: PLC0415 - not for --help and completion

    return Acting(session, dry_run=dry_run)
