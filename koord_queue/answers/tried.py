"""What becomes of a manifest that is submitted now."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer
from koord_queue.answers.explanation import Explanation
from koord_queue.answers.forecast import Forecast


class Warned(Answer, frozen=True):
    """A warning: the reason and the words of an event on the job."""

    reason: str = ""
    message: str = ""


class Wrong(Answer, frozen=True):
    """Why the object could not be created, or read; `field` is a path, or empty."""

    field: str = ""
    message: str = ""


class TriedJob(Answer, frozen=True):
    """One job of the manifest, or an object that is none; see docs/debug-api.md."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    reason: str = ""
    message: str = ""
    errors: tuple[Wrong, ...] = ()
    warnings: tuple[Warned, ...] = ()
    unit: str = ""
    exists: bool = False
    queue: str = ""
    quota: str = ""
    priority: int = 0
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
    """What becomes of each job of a manifest. Nothing is created."""

    defaulted: bool = False
    not_looked_up: tuple[str, ...] = ()
    jobs: tuple[TriedJob, ...] = ()
    no_forecast: str = ""
