"""`koord-queue explain`: why a unit waits, and what would start it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command()
@click.argument("unit")
@click.option("--changes", is_flag=True, help="Also the smallest changes that would start it.")
@click.option("--all", "shows_all", is_flag=True, help="All reasons, where there are many.")
@options.at
@options.from_dump
@options.output("text", "json", "yaml")
@options.reach
def explain(session: Session, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Say why a job waits: all that keeps it, with the numbers, and what would start it.

    UNIT is job/NAME, NAMESPACE/NAME, or the name of a queue unit.
    """
    from koord_queue.cli.explain_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, **given)
