"""What a person can ask of the demo: on the command line, or through make's variables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.demo.load_plan import SUBMIT_SECONDS

ALL_JOBS = 10_000


class Where(StrEnum):
    """The cluster that the demo runs on."""

    EMBEDDED = "embedded"
    LOCAL = "local"
    CURRENT = "current"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        where: the cluster.
        once: end with a summary, instead of staying up when the load is through.
        jobs: how many of the slice's jobs.
        submit_seconds: over how many seconds they are submitted.
    """

    where: Where = Where.EMBEDDED
    once: bool = False
    jobs: int = ALL_JOBS
    submit_seconds: float = SUBMIT_SECONDS


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Read them; CLUSTER and DEMO of the environment are what make passes on.

    Raises:
        SystemExit: `--help`, or something unknown; argparse has said what.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.demo",
        description="Koord-Queue at work on a slice of a real trace. Ctrl-C removes everything.",
    )
    add = parser.add_argument
    add(
        "--cluster",
        default=environment.get("CLUSTER") or Where.EMBEDDED.value,
        help="embedded: the fake API server; local: a real control plane with fake nodes;"
        " current: the kubeconfig's cluster, after asking",
    )
    add("--once", action="store_true", help="end by itself, with a summary")
    add("--jobs", type=int, default=ALL_JOBS, help="how many of the slice's jobs")
    add("--submit-seconds", type=float, default=SUBMIT_SECONDS, help="over how many seconds")
    got = parser.parse_args(list(arguments))
    mode = environment.get("DEMO", "")
    if got.cluster not in set(Where):
        parser.error(f"CLUSTER={got.cluster}: there are {', '.join(Where)}")
    if mode not in {"", "once"}:
        parser.error(f"DEMO={mode}: only 'once' means something")
    if got.jobs < 1 or got.submit_seconds <= 0:
        parser.error("--jobs and --submit-seconds must be above 0")
    return Settings(
        where=Where(got.cluster),
        once=got.once or mode == "once",
        jobs=got.jobs,
        submit_seconds=got.submit_seconds,
    )
