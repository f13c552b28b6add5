"""Acts on jobs and queues: `hold`, `move`, `drain` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from koord_queue.acts import on_queues, on_units
from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.cli.acting import Acting
    from koord_queue.session.session import Session


def _act(
    metavar: str, *added: Callable[[options.Function], options.Function]
) -> Callable[[options.Function], click.Command]:
    """Return a decorator that makes a command of an act on targets.

    Args:
        metavar: What the targets are.
        added: Options of the command, beside those that all have.
    """

    def decorate(act: options.Function) -> click.Command:
        @wraps(act)
        def command(session: Session, *, dry_run: bool, **given: Any) -> None:  # noqa: ANN401 - whatever the act takes
            from koord_queue.cli.acting import Acting  # noqa: PLC0415 - not for --help

            act(Acting(session, dry_run=dry_run), **given)

        made = options.reach(command)
        help_ = "Change nothing: say what it would set off."
        made = click.option("--dry-run", is_flag=True, help=help_)(made)
        for option in reversed(added):
            made = option(made)
        return click.command()(
            click.argument("targets", metavar=metavar, nargs=-1, required=True)(made)
        )

    return decorate


_on_jobs = _act("JOB...")
_on_queues = _act("QUEUE...")


@_act(
    "JOB...",
    click.option("--to", "number", type=int, metavar="NUMBER", help="The new priority."),
    click.option("--reset", is_flag=True, help="Take it from the PriorityClass again."),
)
def priority(acting: Acting, *, targets: Sequence[str], number: int | None, reset: bool) -> None:
    """Set the priority of jobs: --to a number, or --reset."""
    if (number is None) is not reset:
        raise click.UsageError("Say either --to NUMBER or --reset.")
    acting.on_units(targets, lambda target: on_units.set_priority(target, number))


@_act("JOB...", click.option("--to", "queue", required=True, metavar="QUEUE", help="The queue."))
def move(acting: Acting, *, targets: Sequence[str], queue: str) -> None:
    """Move jobs to another queue; those that run, when they wait again."""
    known = acting.read_queue(queue)
    acting.on_units(targets, lambda target: on_units.move(target, queue, known))


@_on_jobs
def hold(acting: Acting, *, targets: Sequence[str]) -> None:
    """Keep waiting jobs from starting; what runs is left alone."""
    acting.on_units(targets, on_units.hold)


@_on_jobs
def release(acting: Acting, *, targets: Sequence[str]) -> None:
    """Let jobs that are on hold start again."""
    acting.on_units(targets, on_units.release)


@_on_jobs
def deactivate(acting: Acting, *, targets: Sequence[str]) -> None:
    """Stop jobs, and keep them from waiting until they are activated."""
    acting.on_units(targets, on_units.deactivate)


@_on_jobs
def activate(acting: Acting, *, targets: Sequence[str]) -> None:
    """Have jobs wait again that are inactive, by whatever has deactivated them."""
    acting.on_units(targets, on_units.activate)


@_on_jobs
def requeue(acting: Acting, *, targets: Sequence[str]) -> None:
    """Evict jobs that have started, and have them wait again."""
    acting.on_units(targets, lambda target: on_units.requeue(target, acting.now()))


@_on_queues
def stop(acting: Acting, *, targets: Sequence[str]) -> None:
    """Let queues start no more jobs; what runs goes on."""
    acting.on_queues(targets, on_queues.HOLD)


@_on_queues
def drain(acting: Acting, *, targets: Sequence[str]) -> None:
    """Let queues start no more jobs, and evict those that have started."""
    acting.on_queues(targets, on_queues.DRAIN)


@_on_queues
def resume(acting: Acting, *, targets: Sequence[str]) -> None:
    """Let queues start jobs again."""
    acting.on_queues(targets, on_queues.NONE)
