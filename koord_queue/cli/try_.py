"""`koord-queue try`: what becomes of a manifest, if it were applied now."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed
from koord_queue.session.answer_context import has_cluster, open_context, show_tree

if TYPE_CHECKING:
    from koord_queue.session.answer_context import AnswerContext
    from koord_queue.session.session import Session

STDIN: Final = "-"


@click.command("try")
@click.option("-f", "--filename", required=True, metavar="FILE", help="YAML or JSON; - is stdin.")
@click.option("--changes", is_flag=True, help="Also the smallest changes that would start it.")
@click.option("--all", "shows_all", is_flag=True, help="All reasons, where there are many.")
@options.from_dump
@options.output("text", "json", "yaml")
@options.reach
def try_(
    session: Session,
    *,
    filename: str,
    changes: bool,
    shows_all: bool,
    dump: str | None,
    form: str,
) -> None:
    """Say what would become of the jobs of a manifest, if it were applied now.

    Nothing is created or changed. The API server is asked by a dry run first, so that its defaults
    and webhooks count; what it refuses is not tried.
    """
    from koord_queue.reach import questions  # noqa: PLC0415 - not for --help

    manifest = read_file(filename)
    context = open_context(session, dump)
    namespace = context.namespace()
    defaulted = None if dump is not None else _dry_run(session, manifest, namespace)
    question = questions.try_(
        manifest if defaulted is None else defaulted,
        namespace,
        is_json=defaulted is not None or filename.endswith(".json"),
        changes=changes,
        defaulted=defaulted is not None,
    )
    answer = context.source.answer(question)
    if not show_tree(session, answer, form):
        _show(session, context, answer, shows_all=shows_all)


def _dry_run(session: Session, manifest: bytes, namespace: str) -> bytes | None:
    """Return what the API server makes of a manifest; None if it cannot be asked.

    Raises:
        CommandError: It refuses an object.
    """
    from koord_queue.reach.dry_run import apply_dry  # noqa: PLC0415 - not for a dump

    if not has_cluster(session):
        session.out.note("the API server was not asked for its defaults: none is known")
        return None
    try:
        return apply_dry(session.cluster(), manifest, namespace)
    except NotServed as error:
        session.out.note(f"the API server was not asked for its defaults: {error.message}")
        return None


def _show(session: Session, context: AnswerContext, answer: bytes, *, shows_all: bool) -> None:
    from koord_queue.answers.decoding import decode  # noqa: PLC0415 - not for --help
    from koord_queue.answers.tried import Tried  # noqa: PLC0415 - the same
    from koord_queue.show.paragraphs import write_lines  # noqa: PLC0415 - the same
    from koord_queue.show.tried import tried_lines  # noqa: PLC0415 - the same

    told = tried_lines(decode(answer, Tried), context.wall, shows_all=shows_all)
    write_lines(session.out, told)


def read_file(name: str) -> bytes:
    """Return the content of a file, or of standard input.

    Raises:
        CommandError: It cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror or error}") from error
