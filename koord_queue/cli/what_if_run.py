"""What `koord-queue what-if` does when it is run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click
import msgspec
import yaml

from koord_queue.answers.decoding import decode
from koord_queue.answers.what_if import WhatIf
from koord_queue.cli.try_run import read_file
from koord_queue.errors import CommandError
from koord_queue.reach import questions
from koord_queue.reach.dry_run import check_patches
from koord_queue.session import edit_flags
from koord_queue.session.answer_context import AnswerContext, has_cluster, open_context, show_tree
from koord_queue.session.policy_flags import policy_edits, read_policy_flag
from koord_queue.session.session import Session
from koord_queue.show.paragraphs import write_lines
from koord_queue.show.what_if import HORIZON_COLUMNS, horizon_lines, horizon_rows, what_if_lines

Json = dict[str, Any]


class Edits(NamedTuple):
    """The flags that are edits, as they were typed."""

    quotas: tuple[str, ...]
    policies: tuple[str, ...]
    queues: tuple[str, ...]
    nodes: tuple[str, ...]
    ended: tuple[str, ...]


def run(
    session: Session,
    *,
    file: str | None,
    horizon: float | None,
    seed: int | None,
    dump: str | None,
    form: str,
    **edits: Any,  # noqa: ANN401 - the fields of `Edits`
) -> None:
    """Show what edits would change; the arguments are the options of the command."""
    context = open_context(session, dump)
    question = _question(context, Edits(**edits), file)
    if horizon is not None:
        question |= {"horizonSeconds": horizon}
    if seed is not None:
        question |= {"seed": seed}
    if dump is None:
        _check(session, question["edits"])
    answer = context.source.answer(questions.what_if(msgspec.json.encode(question)))
    if not show_tree(session, answer, form):
        _show(session, answer, has_horizon="horizonSeconds" in question)


def _question(context: AnswerContext, edits: Edits, file: str | None) -> Json:
    question = {"edits": []} if file is None else _read_question(file)
    question["edits"] = [*question["edits"], *_own_edits(context, edits)]
    if not question["edits"]:
        raise click.UsageError(
            "Nothing is edited: --quota, --policy, --queue, --node, --end or --file."
        )
    return question


def _read_question(file: str) -> Json:
    """Return the question of a file; a bare list is that of its edits."""
    try:
        found = yaml.load(read_file(file), yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from error
    question = {"edits": found} if isinstance(found, list) else found
    if not isinstance(question, dict) or not isinstance(question.get("edits"), list):
        raise CommandError(f"{file}: want a list of edits, or a question that has edits")
    if not all(isinstance(each, dict) for each in question["edits"]):
        raise CommandError(f"{file}: an edit is no object")
    return question


def _own_edits(context: AnswerContext, edits: Edits) -> list[Json]:

    quotas = [edit_flags.read_quota_flag(each) for each in edits.quotas]
    found = [edit_flags.queue_edit(each) for each in edits.queues]
    found += [edit_flags.node_edit(each) for each in edits.nodes]
    for named in edits.ended:
        namespace, name = context.find(named)
        found.append({"kind": "QueueUnit", "namespace": namespace, "name": name, "end": True})
    if edits.policies:
        flags = [read_policy_flag(each) for each in edits.policies]
        found += policy_edits(flags, context.policies())
    if quotas:
        found += edit_flags.quota_edits(quotas, context.quotas())
    return found


def _check(session: Session, edits: Sequence[Json]) -> None:
    """Ask the API server whether it accepts the edits; a note says where it was not asked."""
    if not has_cluster(session):
        session.out.note("the API server was not asked whether it accepts the edits: none is known")
        return
    for each in check_patches(session.cluster(), edits, session.choice.system_namespace):
        session.out.note(f"the API server was not asked whether it accepts the edit: {each}")


def _show(session: Session, answer: bytes, *, has_horizon: bool) -> None:

    found = decode(answer, WhatIf)
    write_lines(session.out, what_if_lines(found))
    if found.horizon is not None:
        write_lines(session.out, horizon_lines(found.horizon))
        if rows := horizon_rows(found.horizon):
            session.out.table(HORIZON_COLUMNS, rows)
    elif has_horizon:
        session.out.note(f"nothing is known over a time: {found.no_horizon}")
