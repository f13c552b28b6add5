"""`koord-queue submit`: creates the objects of a manifest, and follows its jobs until they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command()
@click.option("-f", "--filename", required=True, metavar="FILE", help="YAML or JSON; - is stdin.")
@click.option("--queue", default="", metavar="NAME", help="Queue of its jobs.")
@click.option("--quota", default="", metavar="NAME", help="Quota of its jobs.")
@click.option("--priority", type=int, metavar="NUMBER", help="Priority of its jobs.")
@click.option("--wait", is_flag=True, help="Follow the jobs until they end.")
@click.option("--timeout", metavar="DURATION", help="With --wait: how long at most, such as 90m.")
@click.option("--dry-run", is_flag=True, help="Create nothing: say what would become of the jobs.")
@options.reach
def submit(session: Session, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Create the objects of a manifest, once all have passed the server's dry run.

    With --wait the exit code is 0 if all jobs have succeeded, 1 if one has failed, and 3 if the
    end of one was not seen: it was deleted before, the time was over, or the queue does not manage
    it.
    """
    from koord_queue.cli.submit_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, **given)
