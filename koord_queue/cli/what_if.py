"""`koord-queue what-if`: what edits of quotas, policies, queues, nodes and units change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from koord_queue.cli import options

if TYPE_CHECKING:
    from koord_queue.session.session import Session

MAX_HORIZON_SECONDS: Final = 30 * 86_400
"""A month, as the API has it."""
MAX_SEED: Final = 2**53


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
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME.userLimits[N].max.RESOURCE=VALUE",
    help="Change a limit or a budget (NAME.budgets[N].hours) of a QuotaPolicy: +N, -N, none.",
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
def what_if(session: Session, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Say what edits would change: what starts, what waits, what is evicted. Nothing is changed.

    Edits are made together. The API server is asked by a dry run first whether it accepts them.
    """
    from koord_queue.cli.what_if_run import run  # noqa: PLC0415 - not for --help and completion

    run(session, **given)
