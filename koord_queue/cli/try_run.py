"""What `koord-queue try` does when it is run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from koord_queue.answers.decoding import decode
from koord_queue.answers.tried import Tried
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.dry_run import apply_dry
from koord_queue.reach.errors import NotServed
from koord_queue.session.answer_context import AnswerContext, has_cluster, open_context, show_tree
from koord_queue.session.session import Session
from koord_queue.show.paragraphs import write_lines
from koord_queue.show.tried import tried_lines

STDIN: Final = "-"


def run(
    session: Session,
    *,
    filename: str,
    changes: bool,
    shows_all: bool,
    dump: str | None,
    form: str,
) -> None:
    """Show what becomes of a manifest; the arguments are the options of the command."""
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
    if not has_cluster(session):
        session.out.note("the API server was not asked for its defaults: none is known")
        return None
    try:
        return apply_dry(session.cluster(), manifest, namespace)
    except NotServed as error:
        session.out.note(f"the API server was not asked for its defaults: {error.message}")
        return None


def _show(session: Session, context: AnswerContext, answer: bytes, *, shows_all: bool) -> None:

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
