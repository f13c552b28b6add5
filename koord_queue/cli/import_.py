"""`koord-queue import`: takes over the quotas, the queues and the jobs of another queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command("import")
@click.argument("source", type=click.Choice(["kueue"]))
@click.option(
    "--file", "files", multiple=True, metavar="FILE", help="Read these, not the cluster; repeat it."
)
@click.option("--jobs", is_flag=True, help="Also jobs that run or wait: they get our labels.")
@click.option("--apply", is_flag=True, help="Write it, once all has passed the server's dry run.")
@options.output("table", "yaml", "json")
@options.reach
def import_(session: Session, *, source: str, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Say what the objects of SOURCE become here, and what cannot be carried over.

    Without --apply nothing is written. -o yaml prints the objects that would be. A second import
    changes nothing, unless SOURCE has changed.
    """
    del source
    from koord_queue.cli.import_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, **given)
