"""`koord-queue shadow-report`: what this queue would have decided, from the record of a shadow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from koord_queue.cli.options import output
from koord_queue.errors import EXIT_USAGE, CommandError

FILE: Final = click.Path(path_type=Path)


@click.command("shadow-report")
@click.argument("record", type=FILE, metavar="RECORD")
@click.option(
    "--objects",
    type=FILE,
    metavar="FILE",
    help="Quotas, queues and places as YAML, instead of those of the record.",
)
@click.option(
    "--config", type=FILE, metavar="FILE", help="The scheduler's configuration file, instead."
)
@click.option("--policy", default="", metavar="P", help="Policy of all queues; default: their own.")
@click.option("--html", type=FILE, metavar="FILE", help="Write a page with plots there.")
@output("text", "json")
def shadow_report(
    record: Path,
    objects: Path | None,
    config: Path | None,
    policy: str,
    html: Path | None,
    form: str,
) -> None:
    """Compare what happened with what this queue would have decided.

    RECORD is the folder that `koord-queue-scheduler --shadow` writes. docs/shadow.md says what the
    numbers mean.
    """
    from queue_insight.replay.jobs import TraceError  # noqa: PLC0415 - not for --help
    from queue_insight.shadow.command import Options, run  # noqa: PLC0415 - the same
    from queue_insight.shadow.folder import RecordError  # noqa: PLC0415 - the same
    from shared_api.program_flags import ConfigurationError, FlagError  # noqa: PLC0415 - the same

    options = Options(
        record=record, objects=objects, config=config, policy=policy, html=html, form=form
    )
    try:
        run(options, sys.stdout)
    except (RecordError, TraceError, FlagError, ConfigurationError) as error:
        raise CommandError(str(error), exit_code=EXIT_USAGE) from error
