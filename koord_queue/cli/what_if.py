"""`koord-queue what-if`: what edits of quotas, queues, nodes and units would change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.session.answer_context import has_cluster, open_context, show_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord_queue.session.answer_context import AnswerContext
    from koord_queue.session.session import Session

Json = dict[str, Any]

MAX_HORIZON_SECONDS: Final = 30 * 86_400
"""A month, as the API has it."""
MAX_SEED: Final = 2**53


class Edits(NamedTuple):
    """The flags that are edits, as they were typed."""

    quotas: tuple[str, ...]
    queues: tuple[str, ...]
    nodes: tuple[str, ...]
    ended: tuple[str, ...]


class Horizon(click.ParamType[float]):
    """Seconds, or a duration as `6h`."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds."""
        from shared_api.durations import DurationError, parse_seconds  # noqa: PLC0415 - if given

        try:
            seconds = parse_seconds(str(value))
        except DurationError as error:
            self.fail(str(error), param, ctx)
        if not 0 < seconds <= MAX_HORIZON_SECONDS:
            self.fail(f"{value} is not above 0, or more than 30 days (720h).", param, ctx)
        return seconds


@click.command("what-if")
@click.option(
    "--quota",
    "quotas",
    multiple=True,
    metavar="NAME.max.RESOURCE=VALUE",
    help="Change a bound (max or min): +N and -N from the present one, none without one.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME.KEY=VALUE",
    help="Change a queue: KEY is priority, policy, or an annotation as stop-policy; none removes.",
)
@click.option(
    "--node", "nodes", multiple=True, metavar="NAME.copies=N", help="Add N nodes like this one."
)
@click.option("--end", "ended", multiple=True, metavar="UNIT", help="End a unit with its pods.")
@click.option(
    "--file", metavar="FILE", help="Edits as JSON or YAML: a list, or a whole question; - is stdin."
)
@click.option(
    "--horizon", type=Horizon(), metavar="TIME", help="Also what changes until then: 6h, 90m."
)
@click.option(
    "--seed",
    type=click.IntRange(0, MAX_SEED),
    metavar="N",
    help="Of what is drawn for that; default: 0.",
)
@options.from_dump
@options.output("text", "json", "yaml")
@options.reach
def what_if(
    session: Session,
    *,
    file: str | None,
    horizon: float | None,
    seed: int | None,
    dump: str | None,
    form: str,
    **edits: Any,  # noqa: ANN401 - the fields of `Edits`
) -> None:
    """Say what edits would change: what starts, what waits, what is evicted. Nothing is changed.

    Edits are made together. The API server is asked by a dry run first whether it accepts them.
    """
    context = open_context(session, dump)
    question = _question(context, Edits(**edits), file)
    if horizon is not None:
        question |= {"horizonSeconds": horizon}
    if seed is not None:
        question |= {"seed": seed}
    if dump is None:
        _check(session, question["edits"])
    import msgspec  # noqa: PLC0415 - not for --help

    from koord_queue.reach import questions  # noqa: PLC0415 - the same

    answer = context.source.answer(questions.what_if(msgspec.json.encode(question)))
    if not show_tree(session, answer, form):
        _show(session, answer, has_horizon="horizonSeconds" in question)


def _question(context: AnswerContext, edits: Edits, file: str | None) -> Json:
    question = {"edits": []} if file is None else _read_question(file)
    question["edits"] = [*question["edits"], *_own_edits(context, edits)]
    if not question["edits"]:
        raise click.UsageError("Nothing is edited: --quota, --queue, --node, --end or --file.")
    return question


def _read_question(file: str) -> Json:
    """Return the question of a file; a bare list is that of its edits."""
    import yaml  # noqa: PLC0415 - only for a file

    from koord_queue.cli.try_ import read_file  # noqa: PLC0415 - the same

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
    from koord_queue.session import edit_flags  # noqa: PLC0415 - not for --help

    quotas = [edit_flags.read_quota_flag(each) for each in edits.quotas]
    found = [edit_flags.queue_edit(each) for each in edits.queues]
    found += [edit_flags.node_edit(each) for each in edits.nodes]
    for named in edits.ended:
        namespace, name = context.find(named)
        found.append({"kind": "QueueUnit", "namespace": namespace, "name": name, "end": True})
    if quotas:
        found += edit_flags.quota_edits(quotas, context.quotas())
    return found


def _check(session: Session, edits: Sequence[Json]) -> None:
    """Ask the API server whether it accepts the edits; a note says where it was not asked."""
    from koord_queue.reach.dry_run import check_patches  # noqa: PLC0415 - not for a dump

    if not has_cluster(session):
        session.out.note("the API server was not asked whether it accepts the edits: none is known")
        return
    for each in check_patches(session.cluster(), edits, session.choice.system_namespace):
        session.out.note(f"the API server was not asked whether it accepts the edit: {each}")


def _show(session: Session, answer: bytes, *, has_horizon: bool) -> None:
    from koord_queue.answers.decoding import decode  # noqa: PLC0415 - not for --help
    from koord_queue.answers.what_if import WhatIf  # noqa: PLC0415 - the same
    from koord_queue.show.paragraphs import write_lines  # noqa: PLC0415 - the same
    from koord_queue.show.what_if import (  # noqa: PLC0415 - the same
        HORIZON_COLUMNS,
        horizon_lines,
        horizon_rows,
        what_if_lines,
    )

    found = decode(answer, WhatIf)
    write_lines(session.out, what_if_lines(found))
    if found.horizon is not None:
        write_lines(session.out, horizon_lines(found.horizon))
        session.out.table(HORIZON_COLUMNS, horizon_rows(found.horizon))
    elif has_horizon:
        session.out.note(f"nothing is known over a time: {found.no_horizon}")
