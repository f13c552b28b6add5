"""Whether a job is managed, as the controllers answer.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class JobUnit(Answer, frozen=True):
    """The unit of a job. `reason` and `message` are why it waits, as far as that is written."""

    name: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""


class JobProblem(Answer, frozen=True):
    """What is wrong with a job: the reason and the words of an event on it."""

    reason: str = ""
    message: str = ""


class Job(Answer, frozen=True):
    """One job: whether it is managed, and why or why not.

    `leader` says whether this replica decides or only follows: one that follows reads no owners.
    `reason` is a word for programs, `message` the same in words, and what to do. `queue` and
    `quota` are those that its unit names, or would name. `template_differences` is what the API
    server makes of its pod templates that differs from them. `suspended` is null if the job cannot
    be read, or its kind is not served.
    """

    leader: bool = False
    namespace: str = ""
    api_version: str = ""
    kind: str = ""
    name: str = ""
    extension: str = ""
    managed: bool = False
    reason: str = ""
    message: str = ""
    suspended: bool | None = None
    queue: str = ""
    quota: str = ""
    unit: JobUnit | None = None
    template_differences: str = ""
    problems: tuple[JobProblem, ...] = ()
