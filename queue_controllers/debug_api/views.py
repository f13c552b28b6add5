"""The answers of the controllers' debug API. Pure.

The models are frozen pydantic models; their fields are the API's contract and make `/openapi.json`.
"""

from __future__ import annotations

from queue_controllers.debug_api.explanation import Explanation
from queue_controllers.jobframework.generic_job import JobFacts, JobKind
from shared_api.debug_api.views import View
from shared_api.objects.meta import find_condition
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import QUOTA_RESERVED


class JobProblemView(View):
    """What is wrong with a job: the reason and the words of an event on it."""

    reason: str
    message: str


class JobUnitView(View):
    """The unit of a job. `reason` and `message` are why it waits, as far as that is written."""

    name: str
    phase: str
    reason: str = ""
    message: str = ""


class JobAnswer(View):
    """One job: whether it is managed, and why or why not.

    `leader` says whether this replica decides or only follows: one that follows reads no owners.
    `reason` is a word for programs, `message` the same in words, and what to do. `queue` and
    `quota` are those that its unit names, or would name. `template_differences` is what the API
    server makes of its pod templates that differs from them. `suspended` is null if the job cannot
    be read, or its kind is not served.
    """

    leader: bool
    namespace: str
    api_version: str
    kind: str
    name: str
    extension: str
    managed: bool
    reason: str
    message: str
    suspended: bool | None = None
    queue: str = ""
    quota: str = ""
    unit: JobUnitView | None = None
    template_differences: str = ""
    problems: list[JobProblemView]


def view_job(
    kind: JobKind,
    key: str,
    explanation: Explanation,
    *,
    leader: bool,
    job: JobFacts | None = None,
    unit: QueueUnit | None = None,
) -> JobAnswer:
    """Return the answer about one job.

    Args:
        kind: Its kind.
        key: `namespace/name`.
        explanation: Whether it is managed.
        leader: Whether this replica decides.
        job: The job's facts; None if they are not known.
        unit: Its unit, if it has one.
    """
    namespace, _, name = key.partition("/")
    problems = [
        JobProblemView(reason=each.reason, message=each.message) for each in explanation.problems
    ]
    return JobAnswer(
        leader=leader,
        namespace=namespace,
        api_version=kind.api_version,
        kind=kind.kind,
        name=name,
        extension=kind.key,
        managed=explanation.managed,
        reason=explanation.reason.value,
        message=explanation.message,
        suspended=None if job is None else job.suspended,
        queue=explanation.queue,
        quota=explanation.quota,
        unit=None if unit is None else _view_unit(unit),
        template_differences="" if job is None else job.template_differences,
        problems=problems,
    )


def _view_unit(unit: QueueUnit) -> JobUnitView:
    waits = find_condition(unit.status.conditions, QUOTA_RESERVED)
    is_waiting = waits is not None and waits.status == "False"
    return JobUnitView(
        name=unit.metadata.name,
        phase=unit.status.phase,
        reason=waits.reason if waits is not None and is_waiting else "",
        message=waits.message if waits is not None and is_waiting else "",
    )
