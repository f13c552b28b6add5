"""`koord-queue try`: what becomes of a manifest, if it were applied now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session


@click.command("try")
@click.option("-f", "--filename", required=True, metavar="FILE", help="YAML or JSON; - is stdin.")
@click.option("--changes", is_flag=True, help="Also the smallest changes that would start it.")
@click.option("--all", "shows_all", is_flag=True, help="All reasons, where there are many.")
@options.from_dump
@options.output("text", "json", "yaml")
@options.reach
def try_(session: Session, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Say what would become of the jobs of a manifest, if it were applied now.

    Nothing is created or changed. The API server is asked by a dry run first, so that its defaults
    and webhooks count; what it refuses is not tried.
    """
    from koord_queue.cli.try_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, **given)
