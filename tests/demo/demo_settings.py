"""The settings of the demo, from the command line and make's variables."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.controlplane.binaries import KUBERNETES_CHOICE, UnknownKubernetes, chosen_kubernetes
from tests.demo.load_plan import SUBMIT_SECONDS

ALL_JOBS = 10_000


class Where(StrEnum):
    """The cluster that the demo runs on."""

    EMBEDDED = "embedded"
    LOCAL = "local"
    CURRENT = "current"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one run.

    Attributes:
        where: the cluster.
        once: whether it ends with a summary when the load has ended, instead of staying up.
        jobs: the number of jobs taken from the slice.
        submit_seconds: the seconds over which they are submitted.
    """

    where: Where = Where.EMBEDDED
    once: bool = False
    jobs: int = ALL_JOBS
    submit_seconds: float = SUBMIT_SECONDS


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings; make passes CLUSTER, DEMO and KUBERNETES in the environment.

    Raises:
        SystemExit: `--help`, or an invalid argument, which argparse has reported.
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
    if environment.get(KUBERNETES_CHOICE) and got.cluster != Where.LOCAL:
        parser.error(f"{KUBERNETES_CHOICE}= needs CLUSTER={Where.LOCAL}: the others have their own")
    try:
        chosen_kubernetes(environment)
    except UnknownKubernetes as error:
        parser.error(str(error))
    if got.jobs < 1 or got.submit_seconds <= 0:
        parser.error("--jobs and --submit-seconds must be above 0")
    return Settings(
        where=Where(got.cluster),
        once=got.once or mode == "once",
        jobs=got.jobs,
        submit_seconds=got.submit_seconds,
    )
