"""`koord-queue when`: when units start and end, and when budgets are spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command()
@click.argument("named", metavar="UNIT|queue/NAME|quota/NAME")
@options.from_dump
@options.output("text", "json", "yaml")
@options.reach
def when(session: Session, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Say when a job that waits starts and ends, by the last forecast.

    UNIT is job/NAME, NAMESPACE/NAME, or the name of a queue unit; of queue/NAME all units are
    listed. Of quota/NAME: when its budgets are spent. Times are in the zone of this machine.
    """
    from koord_queue.cli.when_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, **given)
