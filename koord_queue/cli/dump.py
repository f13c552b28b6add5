"""`koord-queue dump`: what the scheduler believes, as a file for a bug report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from koord_queue.cli import options
from koord_queue.errors import CommandError

if TYPE_CHECKING:
    from koord_queue.session.session import Session
    from queue_insight.offline.prepare import Prepared

STDOUT: Final = "-"


@click.command()
@click.option("--from-dump", "dump_file", metavar="FILE", help="A dump that was saved with names.")
@click.option(
    "-o",
    "--output-file",
    "path",
    default=STDOUT,
    metavar="FILE",
    help="Where to write; compressed if it ends in .gz; default: standard output.",
)
@click.option(
    "--anonymize/--no-anonymize",
    default=True,
    help="Replace names of objects, users and nodes; default: yes.",
)
@click.option(
    "--key",
    default="",
    metavar="TEXT",
    help="Mark each name with a hash by this key, to compare dumps; default: no marks.",
)
@options.reach
def dump(session: Session, *, dump_file: str | None, path: str, anonymize: bool, key: str) -> None:
    """Save what the scheduler believes, without names, for a bug report."""
    named = click.get_current_context().get_parameter_source("server")
    if dump_file is not None and named is ParameterSource.COMMANDLINE:
        raise click.UsageError("--from-dump and --server are two sources: give one.")
    source = (
        Path(dump_file)
        if dump_file is not None
        else session.debug("/debug/dump", (("gzip", "true"),))
    )
    prepared = _prepare(source, key if anonymize else None, compress=path.endswith(".gz"))
    if path == STDOUT:
        sys.stdout.buffer.write(prepared.data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(path).write_bytes(prepared.data)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    names = "WITH names" if prepared.has_names else "without names"
    session.out.note(f"{path}: {prepared.units} units, {prepared.queues} queues, {names}")


def _prepare(source: Path | bytes, key: str | None, *, compress: bool) -> Prepared:
    from queue_insight.offline.errors import DumpError  # noqa: PLC0415 - the engine's values
    from queue_insight.offline.prepare import prepare  # noqa: PLC0415 - the same

    try:
        return prepare(source, key=key, compress=compress)
    except DumpError as error:
        raise CommandError(str(error)) from error
