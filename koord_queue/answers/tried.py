"""What becomes of a manifest that is submitted now.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast


class TriedError(Answer, frozen=True):
    """Why the object could not be created, or read; `field` is a path, or empty."""

    field: str = ""
    message: str = ""


class TriedProblem(Answer, frozen=True):
    """A warning: the reason and the words of an event on the job."""

    reason: str = ""
    message: str = ""


class TriedPodSet(Answer, frozen=True):
    """Pods of one shape that the job needs; `requests` of one pod, `total` of all of them.

    `min_count` is the fewest pods with which the job can start; null: all.
    """

    name: str = ""
    count: int = 0
    min_count: int | None = None
    requests: dict[str, str] = {}
    total: dict[str, str] = {}


class TriedJob(Answer, frozen=True):
    """One job of the manifest, or an object that is none.

    `documents` are the places of its objects in the manifest, from 1. `enabled` is always
    `unknown`: which extensions are on is a setting of the controllers. `managed`, `reason` and
    `message` say whether the queue would manage it, and why or why not; `known_kinds` are listed
    for a kind that is not known. `unit` is the name of its QueueUnit, empty without one; it has
    `request` in all. `exists` says that the job is queued already, in this `phase`: the manifest
    updates it. `position` is its place in its queue when it arrives, from 1; 0: it is in none.
    `starts_now` is null if there is no unit, if it has started or ended before, or if more units
    start before it than are tried. `also_starts` start before it, `evicts` are evicted for it;
    `other_starts` and `other_units` count more: those that the caller may not read, and those after
    the first hundred. `explanation` says why it does not start, `forecast` when it would, where the
    insight program runs.
    """

    documents: tuple[int, ...] = ()
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    extension: str = ""
    enabled: str = "unknown"
    managed: bool = False
    reason: str = ""
    message: str = ""
    known_kinds: tuple[str, ...] = ()
    errors: tuple[TriedError, ...] = ()
    warnings: tuple[TriedProblem, ...] = ()
    unit: str = ""
    exists: bool = False
    phase: str = ""
    queue: str = ""
    quota: str = ""
    priority: int = 0
    priority_class: str = ""
    maximum_execution_time_seconds: int | None = None
    pod_sets: tuple[TriedPodSet, ...] = ()
    request: dict[str, str] = {}
    position: int = 0
    starts_now: bool | None = None
    also_starts: tuple[str, ...] = ()
    other_starts: int = 0
    evicts: tuple[str, ...] = ()
    other_units: int = 0
    summary: str = ""
    explanation: Explanation | None = None
    forecast: Forecast | None = None


class Tried(Answer, frozen=True):
    """What becomes of a manifest, were it submitted now; nothing is created.

    `defaulted`: the caller says that the API server has filled in defaults, and webhooks were
    asked, by a dry run. `not_looked_up` is what the answer may depend on, and nobody was asked
    about. `no_forecast` says why a job that does not start has no forecast.
    """

    leader: bool = False
    defaulted: bool = False
    not_looked_up: tuple[str, ...] = ()
    jobs: tuple[TriedJob, ...] = ()
    no_forecast: str = ""
