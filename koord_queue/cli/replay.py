"""`koord-queue replay`: a trace of jobs, played with the engine that decides. Asks no cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from koord_queue.cli.several import NumberRange, SeveralValues
from koord_queue.errors import EXIT_USAGE, CommandError

if TYPE_CHECKING:
    from queue_insight.replay.command import Options


FORMS: Final = ("koord-queue", "normalized", "openb", "philly", "swf")
DECLARED: Final = ("none", "near", "far")
LOADS: Final = (0.4, 0.6, 0.9)
SCORED_POLICIES: Final = ("FIFO", "Priority", "backfill")
FORECASTS: Final = 400
PATHS: Final = 40
MOST: Final = 1_000_000
"""Forecasts, and paths of each: far more than there is time for."""

FILE: Final = click.Path(path_type=Path)
SECONDS: Final = NumberRange(0, 1e9, max_open=True)
"""Up to thirty years."""
LOAD: Final = NumberRange(0, 10, min_open=True)
"""Ten times what there is is more than any trace needs."""
COUNT: Final = click.IntRange(1, MOST)


@click.command(cls=SeveralValues)
@click.argument("file", type=FILE, required=False, metavar="TRACE")
@click.option("--trace", type=FILE, metavar="FILE", help="The jobs; .gz is decompressed.")
@click.option("--quotas", type=FILE, metavar="FILE", help="Quotas (and nodes) as YAML.")
@click.option(
    "--queues", type=FILE, metavar="FILE", help="Queues as YAML; default: one for each quota."
)
@click.option("--config", type=FILE, metavar="FILE", help="The scheduler's configuration file.")
@click.option("--policy", default="", metavar="P", help="Policy of all queues; default: their own.")
@click.option(
    "--compare",
    multiple=True,
    metavar="OTHER...",
    help="Replay again with this policy, or with the quotas of this file, and compare.",
)
@click.option("--format", default="", metavar="F", help=f"Form of the trace: {', '.join(FORMS)}.")
@click.option("--default-quota", default="", metavar="NAME", help="Quota of jobs that name none.")
@click.option(
    "--tenants-as-users",
    is_flag=True,
    help="Tenants of the trace are users of --default-quota, which all jobs have.",
)
@click.option("--start-seconds", type=SECONDS, default=0.0, metavar="S", help="Until pods run: 0.")
@click.option(
    "--stop-seconds", type=SECONDS, default=0.0, metavar="S", help="Until victims leave: 0."
)
@click.option("--seed", type=int, default=0, metavar="N", help="Of all that is drawn; default: 0.")
@click.option("--json", type=FILE, metavar="FILE", help="Write all numbers there.")
@click.option("--report", type=FILE, metavar="FILE.html", help="Write a page with plots there.")
@click.option(
    "--marginal",
    is_flag=True,
    help="Replay again with one unit more of each of the three worst bottlenecks.",
)
@click.option(
    "--score-forecasts",
    is_flag=True,
    help="Ask for forecasts on the way, and score them; the quotas are made from the trace.",
)
@click.option(
    "--loads", multiple=True, type=LOAD, default=LOADS, metavar="L...", help="Scores: 0.4 0.6 0.9."
)
@click.option(
    "--policies",
    multiple=True,
    default=SCORED_POLICIES,
    metavar="P...",
    help=f"Scores: policies, or backfill; default: {' '.join(SCORED_POLICIES)}.",
)
@click.option(
    "--declared",
    multiple=True,
    type=click.Choice(DECLARED),
    default=("near", "far"),
    metavar="D...",
    help=f"Scores: how jobs declare times: {', '.join(DECLARED)}; default: near far.",
)
@click.option(
    "--forecasts", type=COUNT, default=FORECASTS, metavar="N", help="Scores: of each world; 400."
)
@click.option(
    "--paths", type=COUNT, default=PATHS, metavar="N", help="Scores: paths of each forecast; 40."
)
@click.option("--oracle", is_flag=True, help="Scores: give the true run times and later arrivals.")
def replay(file: Path | None, **given: Any) -> None:  # noqa: ANN401 - the options, by their names
    """Replay a trace of jobs: who would have waited, how long, and for what.

    docs/replay.md says what is in the files.
    """
    from queue_insight.replay.command import run  # noqa: PLC0415 - not for --help
    from queue_insight.replay.jobs import TraceError  # noqa: PLC0415 - the same
    from shared_api.process.clock import SystemClock  # noqa: PLC0415 - the same
    from shared_api.program_flags import ConfigurationError, FlagError  # noqa: PLC0415 - the same

    given["trace"] = given["trace"] or file or Path()
    try:
        run(read_options(given), sys.stdout, sys.stderr, SystemClock())
    except (TraceError, FlagError, ConfigurationError) as error:
        raise CommandError(str(error), exit_code=EXIT_USAGE) from error


def read_options(given: dict[str, Any]) -> Options:
    """Return what is asked for; `given` is by the names of the flags."""
    import msgspec  # noqa: PLC0415 - not for --help

    from queue_insight.replay.command import Options  # noqa: PLC0415 - the same
    from queue_insight.replay.score_command import ScoreOptions  # noqa: PLC0415 - the same

    of_scores = {field.name for field in msgspec.structs.fields(ScoreOptions)}
    scores = {name: value for name, value in given.items() if name in of_scores}
    own = {name: value for name, value in given.items() if name not in of_scores}
    return Options(**own, scores=ScoreOptions(**scores))
