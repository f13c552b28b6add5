"""`koord-queue describe`: the life of a unit, its demand, its place, its forecast, its events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command()
@click.argument("unit")
@options.reach
def describe(session: Session, unit: str) -> None:
    """Show all that is known of a job's unit: its life, demand, place, forecast and events.

    UNIT is job/NAME, NAMESPACE/NAME, or the name of a queue unit.
    """
    from koord_queue.cli.describe_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, unit)
