"""Whether a job is managed, as the controllers answer."""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class JobProblem(Answer, frozen=True):
    """What is wrong with a job."""

    reason: str = ""
    message: str = ""


class JobUnit(Answer, frozen=True):
    """Its unit."""

    name: str = ""


class Job(Answer, frozen=True):
    """Whether a job is managed, and why or why not.

    Attributes:
        kind: As objects have it: `Job`.
        reason: A word for programs.
        message: The same in sentences, with what to do; no period at the end.
        unit: None if it has none.
    """

    kind: str = ""
    name: str = ""
    managed: bool = False
    reason: str = ""
    message: str = ""
    unit: JobUnit | None = None
    problems: tuple[JobProblem, ...] = ()
