"""`POST /debug/try`: what becomes of a manifest, were it submitted now. Nothing is created.

The builder of units is the controllers' own. Importing it takes memory and time, so that is done
when the first question comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
from fastapi import Depends, FastAPI, Query, Request

from queue_insight.debug_api.explanations import MAX_TRYING
from queue_insight.debug_api.forecast_routes import NewUnitsView, NewUnitView, without_times
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.question_caller import caller_of
from queue_insight.debug_api.try_views import TriedJob, TryView, view_tried
from queue_insight.forecast.no_forecast import never_as_is
from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.engine.engine import Engine
from shared_api.authorization.rights import ResourceRight
from shared_api.debug_api.access import MAX_NAMESPACES, check_right, may_read_for
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.json_body import (
    BODY_PROBLEMS,
    JSON,
    YAML,
    BodyReader,
    PostedBody,
    request_body,
)
from shared_api.debug_api.router_group import Guard
from shared_api.objects.field_schema import LABEL_LENGTH
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import QueueUnit
from shared_api.program_flags import FlagError
from shared_api.question_errors import Code, QuestionError

DEFAULT_NAMESPACE: Final = "default"
NOT_IN_TIME: Final = "not even one future was played in time"

Sent = Annotated[PostedBody, Depends(BodyReader(JSON, YAML))]
InNamespace = Annotated[
    str,
    Query(
        alias="namespace",
        min_length=1,
        max_length=LABEL_LENGTH,
        description="the namespace of objects that name none",
    ),
]
WithChanges = Annotated[bool, Query(description="also what would start it now")]
Defaulted = Annotated[
    bool, Query(description="the manifest is what the API server returned for a dry run")
]
CheckRight = Callable[[ResourceRight], None]
"""Raises if the caller does not have a right."""

Foresee = Callable[[PostedBody, str], NewUnitsView]
"""Asks the insight program when new units start, a JSON list of QueueUnits in order, for a caller
whose budget is charged there; it raises QuestionError if that does not answer."""


class TryRoutes:
    """Answers questions about manifests; callable from any thread.

    Args:
        fork: Returns a copy of the engine.
        now: Returns the time.
        is_leader: Returns whether this replica decides.
        namespace: Returns a namespace; None if there is none of this name.
        budget: How much computing the questions may take.
    """

    def __init__(
        self,
        fork: Callable[[], Engine],
        now: Callable[[], datetime],
        is_leader: Callable[[], bool],
        namespace: Callable[[str], Namespace | None],
        budget: QuestionBudget,
    ) -> None:
        self._fork = fork
        self._now = now
        self._is_leader = is_leader
        self._namespace = namespace
        self.budget = budget

    def answer(
        self,
        body: PostedBody,
        namespace: str,
        check: CheckRight,
        caller: str,
        *,
        with_changes: bool = False,
        defaulted: bool = False,
        foresee: Foresee | None = None,
    ) -> TryView:
        """Return what becomes of a manifest.

        Args:
            body: The manifest, YAML or JSON.
            namespace: The namespace of objects that name none.
            check: Checks the caller's rights to create the objects.
            caller: The caller whose budget is charged (`question_caller.caller_of`).
            with_changes: Whether changes are sought for jobs that do not start.
            defaulted: What the answer says of itself.
            foresee: Asks when jobs start that do not start now; None if nothing computes that.

        Raises:
            QuestionError: The manifest cannot be read, or has objects in too many namespaces
                (INVALID_ARGUMENT), the budget is spent (RESOURCE_EXHAUSTED), or an installed
                extension is broken (UNAVAILABLE). If the caller may not create an object, `check`
                raises.
        """
        from queue_insight.try_out import submission  # noqa: PLC0415 - costly, see above

        is_json = body.media_type == JSON
        try:
            with self.budget.spend(caller):
                manifest = submission.read_manifest(
                    body.content, is_json=is_json, namespace=namespace
                )
            # The API server is asked outside of the budget's turn, so that others do not wait.
            self._check_rights(submission.rights_to_create(manifest), check)
            with self.budget.spend(caller):
                wall = self._now()
                until = wall + MAX_TRYING
                place = submission.TryOut(
                    self._fork(), wall, self._namespace, lambda: self._now() >= until
                )
                leader = self._is_leader()
                tried = list(place.submit(manifest, with_changes=with_changes))
                jobs = [view_tried(each, leader=leader) for each in tried]
        except submission.UNREADABLE as error:
            raise QuestionError(
                Code.INVALID_ARGUMENT, f"the manifest is refused: {error}"
            ) from error
        except FlagError as error:
            raise QuestionError(Code.UNAVAILABLE, str(error)) from error
        missing = submission.list_not_looked_up(place.facts, defaulted=defaulted)
        view = TryView(leader=leader, defaulted=defaulted, not_looked_up=missing, jobs=jobs)
        units = [each.unit for each in tried]
        # Outside of the budget's turn: another program computes.
        if foresee is None:
            return view
        return _with_forecasts(view, units, lambda posted: foresee(posted, caller))

    @staticmethod
    def _check_rights(rights: tuple[ResourceRight, ...], check: CheckRight) -> None:
        if len(rights) > MAX_NAMESPACES:
            detail = f"{len(rights)} rights to create objects, at most {MAX_NAMESPACES} are checked"
            refused = f"the manifest is refused: it needs {detail}"
            raise QuestionError(Code.INVALID_ARGUMENT, refused)
        for right in rights:
            check(right)


def _with_forecasts(
    view: TryView,
    units: Sequence[QueueUnit | None],
    foresee: Callable[[PostedBody], NewUnitsView],
) -> TryView:
    """Return an answer that says when the jobs start that do not start now; `units`: theirs."""
    if all(job.starts_now is not False for job in view.jobs):
        return view
    posted = PostedBody(JSON, msgspec.json.encode([unit for unit in units if unit is not None]))
    try:
        found = foresee(posted).units
    except QuestionError as error:
        return view.model_copy(update={"no_forecast": error.detail})
    jobs = [
        job.model_copy(update={"forecast": _forecast_of(job, found.get(unit.metadata.uid))})
        if unit is not None and job.starts_now is False
        else job
        for job, unit in zip(view.jobs, units, strict=True)
    ]
    return view.model_copy(update={"jobs": jobs, "no_forecast": "" if found else NOT_IN_TIME})


def _forecast_of(job: TriedJob, found: NewUnitView | None) -> NewUnitView | None:
    """Return the forecast of a job; of one that never starts as it is, that it does not."""
    blockers = [] if job.explanation is None else job.explanation.blockers
    lasting = (never_as_is(each.reason, each.message) for each in blockers)
    no_forecast = next(filter(None, lasting), None)
    return found if found is None or no_forecast is None else without_times(found, no_forecast)


def add_try_route(
    app: FastAPI, routes: TryRoutes, access: Guard, foresee: Foresee | None = None
) -> None:
    """Add the route; `access` is the guard of the application, `foresee` as in `answer`."""

    def try_manifest(
        request: Request,
        body: Sent,
        namespace: InNamespace = DEFAULT_NAMESPACE,
        *,
        changes: WithChanges = False,
        defaulted: Defaulted = False,
    ) -> TryView:
        """What becomes of a manifest, were it submitted now; nothing is created.

        The caller needs the right to create its objects. Units of namespaces that the caller may
        not read are counted, and not named.
        """
        view = routes.answer(
            body,
            namespace,
            lambda right: check_right(access, request, right),
            caller_of(request),
            with_changes=changes,
            defaulted=defaulted,
            foresee=foresee,
        )
        return hide(view, may_read_for(access, request))

    app.post(
        "/debug/try",
        responses=problems(*BODY_PROBLEMS, 429),
        openapi_extra=request_body({JSON: {"type": "object"}, YAML: {"type": "string"}}),
    )(try_manifest)
