"""The route of what-if questions: edits in, what follows from them out.

`WhatIfAnswers` answers from any source of engines: the scheduler's own, without horizons, or that
of the insight program, which plays them; the scheduler's route forwards those questions to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec
from fastapi import Depends, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field

from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.question_caller import caller_of
from queue_insight.what_if.at_once import AtOnce, Eviction, Start, Wait, answer_at_once
from queue_insight.what_if.edit import Edit, EditError, FieldError
from queue_insight.what_if.horizon import Horizon
from queue_insight.what_if.json_patches import MAX_OPERATIONS
from queue_insight.what_if.measures import COMPLETED, LEAST_COMPARED, Comparison, Spread
from queue_scheduler.debug_api.hiding import OF_OTHERS, OfUnit, Owner, SumOf, hide
from queue_scheduler.debug_api.views import RefusalView, view_refusal
from queue_scheduler.decision import Moment, Refusal
from shared_api.debug_api.access import MayRead, may_read_for
from shared_api.debug_api.debug_app import problems
from shared_api.debug_api.json_body import (
    BODY_PROBLEMS,
    JSON,
    BodyReader,
    PostedBody,
    read_json,
    request_body,
    schema_of,
)
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import FieldsOf, View
from shared_api.objects.field_schema import SUBDOMAIN_LENGTH
from shared_api.process.freed_memory import give_back
from shared_api.quantity import format_amount
from shared_api.question_errors import Code, QuestionError
from shared_api.timestamps import rfc3339

PATH: Final = "/debug/what-if"

MAX_EDITS: Final = 100
"""The most edits of one question: each is applied to a copy of the engine, which may take some
ms."""
MAX_LISTED: Final = 1000
"""Units of each list of an answer; the counts are of all."""
MAX_HORIZON_SECONDS: Final = 30 * 86_400
"""A month: beyond it, more depends on what nobody knows than on any edit."""
MAX_SEED: Final = 2**53
"""The largest whole number that all readers of JSON keep exactly."""

NOT_ASKED: Final = "horizonSeconds was not given"
NO_HORIZON: Final = "this process answers what happens at once"
AT_ONCE: Final = "without horizonSeconds, what happens at once is answered"

HOUR: Final = 3600


# --- the question ---------------------------------------------------------------------------------


class EditBody(BaseModel):
    """One edit: a JSON merge patch of one object; null deletes it, an unknown name creates it.

    `operations` are a JSON patch in its place, for a part of a list: of a QuotaPolicy alone.

    `kind` is Queue, QueueUnit, ElasticQuota, ElasticQuotaTree, ResourceQuota, QuotaPolicy,
    QueueReservation, Node, or SchedulerSettings (of all queues). `copies` of a Node adds nodes like
    it. `end` of a QueueUnit ends its job, `requeue` evicts it, and it waits again.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    kind: str = Field(max_length=63)
    api_version: str = Field(default="", alias="apiVersion", max_length=SUBDOMAIN_LENGTH)
    namespace: str = Field(default="", max_length=63)
    name: str = Field(default="", max_length=SUBDOMAIN_LENGTH)
    patch: dict[str, Any] | None = None
    operations: list[dict[str, Any]] = Field(default=[], max_length=MAX_OPERATIONS)
    copies: int = Field(default=0, ge=0, le=10_000)
    end: bool = False
    requeue: bool = False

    def as_edit(self) -> Edit:
        """Return the edit; a missing patch is not a null."""
        has_patch = "patch" in self.model_fields_set
        return Edit(
            kind=self.kind,
            api_version=self.api_version,
            namespace=self.namespace,
            name=self.name,
            patch=self.patch if has_patch else msgspec.UNSET,
            operations=tuple(self.operations),
            copies=self.copies,
            end=self.end,
            requeue=self.requeue,
        )


class WhatIfQuestion(BaseModel):
    """Edits, made together and in this order; how far to look ahead, and the seed of that."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    edits: list[EditBody] = Field(max_length=MAX_EDITS)
    horizon_seconds: float | None = Field(
        default=None, alias="horizonSeconds", gt=0, le=MAX_HORIZON_SECONDS
    )
    seed: int = Field(default=0, ge=0, le=MAX_SEED)


Question = Annotated[PostedBody, Depends(BodyReader(JSON))]


# --- the answer -----------------------------------------------------------------------------------

_of_start = FieldsOf[Start]()
_of_wait = FieldsOf[Wait]()
_of_eviction = FieldsOf[Eviction]()
_of_spread = FieldsOf[Spread]()
_of_comparison = FieldsOf[Comparison]()


class StartedView(View):
    """A unit that starts because of the edits.

    `before` says why it does not start without them; null: there is no such unit, or it would
    only have to wait for its turn.
    """

    unit: Annotated[str, Owner()] = _of_start(lambda each: each.unit)
    queue: str = _of_start(lambda each: each.queue)
    quota: str = _of_start(lambda each: each.quota)
    before: RefusalView | None = _of_start(lambda each: _view(each.before))


class RefusedView(View):
    """A unit that waits for another reason than without the edits.

    `refusal` is why it waits, `before` why it waits without the edits. `would_start`: without them
    it starts, or keeps its place.
    """

    unit: Annotated[str, Owner()] = _of_wait(lambda each: each.unit)
    queue: str = _of_wait(lambda each: each.queue)
    quota: str = _of_wait(lambda each: each.quota)
    refusal: RefusalView | None = _of_wait(lambda each: _view(each.refusal))
    before: RefusalView | None = _of_wait(lambda each: _view(each.before))
    would_start: bool = _of_wait(lambda each: each.would_start)


class EvictedView(View):
    """A unit that leaves its place because of the edits.

    `reason` is `Preempted` or `Reclaimed` for the unit `for_unit`, or `QueueStopped`,
    `Deactivated`, `RequeueRequested` or `NodeGone`. `lost_hours` is how long its pods have run.
    """

    unit: Annotated[str, Owner()] = _of_eviction(lambda each: each.unit)
    queue: str = _of_eviction(lambda each: each.queue)
    quota: str = _of_eviction(lambda each: each.quota)
    reason: str = _of_eviction(lambda each: each.reason)
    for_unit: Annotated[str, OfUnit(hidden=OF_OTHERS)] = _of_eviction(lambda each: each.by)
    lost_hours: float = _of_eviction(lambda each: _hours(each.lost_seconds))


class SpreadView(View):
    """Quantiles over the paths; null: not reached within the horizon."""

    p10: float | None = _of_spread(lambda each: _round(each.p10))
    p50: float | None = _of_spread(lambda each: _round(each.p50))
    p90: float | None = _of_spread(lambda each: _round(each.p90))


class ComparisonView(View):
    """One number without and with the edits, and the difference, path by path.

    `is_clear`: at least eight of ten paths differ in the same direction. Otherwise the difference
    is noise, or there is none.
    """

    before: SpreadView = _of_comparison(lambda each: SpreadView.of(each.before))
    after: SpreadView = _of_comparison(lambda each: SpreadView.of(each.after))
    difference: SpreadView = _of_comparison(lambda each: SpreadView.of(each.difference))
    compared: int = _of_comparison(lambda each: each.compared)
    is_clear: bool = _of_comparison(lambda each: each.is_clear)


class PlaceView(View):
    """A queue or quota until the horizon: waits in seconds, and units that end.

    A wait goes from the creation of a unit to its next admission.
    """

    name: str
    wait_p50: ComparisonView | None
    wait_p90: ComparisonView | None
    completed: ComparisonView | None


class ResourceView(View):
    """How much of a resource is used on average until the horizon.

    `before` and `after` are medians over the paths as quantities, and `used` the numbers in base
    units.
    """

    resource: str
    before: str
    after: str
    used: ComparisonView


class HorizonView(View):
    """What the edits change until the horizon, played on the same random numbers without them.

    `paths` is how many were played: twenty, or at least five if the time was spent before. `basis`
    says what run times and arrivals are based on, `computed_at` is the time of the state that they
    begin with.
    """

    seconds: float
    paths: int
    seed: int
    basis: str
    computed_at: str
    completed: ComparisonView | None
    queues: list[PlaceView]
    quotas: list[PlaceView]
    resources: list[ResourceView]


class WhatIfView(View):
    """What follows from edits: at once, and until a horizon.

    At once means: two copies of the scheduler decide until they rest at this moment, one with the
    edits; listed is what differs. Each list has at most a thousand units that the caller may read;
    the counts are of all. `unread` are paths in the edits that the scheduler does not read.
    `validated` is false: the API server was not asked whether it accepts the edits. `complete`:
    both copies came to rest. `spared` are units that are evicted without the edits only.
    `no_horizon` says why `horizon` is null.
    """

    leader: bool
    validated: bool
    complete: bool
    started: list[StartedView]
    started_count: int
    refused: list[RefusedView]
    refused_count: int
    evicted: list[EvictedView]
    evicted_count: int
    lost_hours: Annotated[float | None, SumOf("evicted")]
    """How long the pods of all evicted units have run in vain; null if it would tell about units of
    one or two namespaces that the caller may not read."""
    spared: Annotated[list[str], OfUnit()]
    spared_count: int
    unread: list[str]
    without_plugins: list[str]
    horizon: HorizonView | None
    no_horizon: str


def view_what_if(found: AtOnce, *, leader: bool) -> WhatIfView:
    """Return the answer without a horizon."""
    return WhatIfView(
        leader=leader,
        validated=False,
        complete=found.is_complete,
        started=[StartedView.of(each) for each in found.started[:MAX_LISTED]],
        started_count=len(found.started),
        refused=[RefusedView.of(each) for each in found.refused[:MAX_LISTED]],
        refused_count=len(found.refused),
        evicted=[EvictedView.of(each) for each in found.evicted[:MAX_LISTED]],
        evicted_count=len(found.evicted),
        lost_hours=_hours(sum(each.lost_seconds for each in found.evicted)),
        spared=list(found.spared[:MAX_LISTED]),
        spared_count=len(found.spared),
        unread=[
            f"edits[{number}].{path}"
            for number, applied_edit in enumerate(found.applied)
            for path in applied_edit.unread
        ],
        without_plugins=list(found.without_plugins),
        horizon=None,
        no_horizon="",
    )


def view_horizon(found: Horizon, seed: int, moment: Moment) -> HorizonView:
    """Return what the edits change until the horizon; `moment`: the time of the state."""
    shown = {name: ComparisonView.of(each) for name, each in found.comparisons.items()}
    named = sorted({about for about, _ in shown})

    def places(prefix: str) -> list[PlaceView]:
        return [
            PlaceView(
                name=about.removeprefix(prefix),
                wait_p50=shown.get((about, "waitP50")),
                wait_p90=shown.get((about, "waitP90")),
                completed=shown.get((about, COMPLETED)),
            )
            for about in named
            if about.startswith(prefix)
        ]

    return HorizonView(
        seconds=found.seconds,
        paths=found.paths,
        seed=seed,
        basis=found.basis,
        computed_at=rfc3339(moment.wall),
        completed=shown.get(("", COMPLETED)),
        queues=places("queue/"),
        quotas=places("quota/"),
        resources=[
            _view_resource(about.removeprefix("resource/"), comparison)
            for (about, _), comparison in sorted(shown.items())
            if about.startswith("resource/")
        ],
    )


def _view_resource(resource: str, used: ComparisonView) -> ResourceView:
    before, after = (
        format_amount(resource, round(each.p50 or 0)) for each in (used.before, used.after)
    )
    return ResourceView(resource=resource, before=before, after=after, used=used)


def _view(refusal: Refusal | None) -> RefusalView | None:
    return None if refusal is None else view_refusal(refusal)


def _round(value: float | None) -> float | None:
    """Return a number without what the clock of this process has added to it by rounding."""
    return None if value is None else round(value, 3)


def _hours(seconds: int) -> float:
    return round(seconds / HOUR, 3)


class WrongEditError(QuestionError):
    """A question with an edit that is wrong, or that its caller may not try.

    Attributes:
        error: Which edit and field, and what is wrong.
    """

    def __init__(self, error: EditError, code: Code = Code.INVALID_ARGUMENT) -> None:
        super().__init__(code, str(error))
        self.error = error


def refuse_edits_of_others(question: WhatIfQuestion, may_read: MayRead) -> None:
    """Refuse edits of units that the caller may not read: an answer would tell about them.

    Raises:
        WrongEditError: PERMISSION_DENIED.
    """
    for number, edit in enumerate(question.edits):
        if edit.kind == "QueueUnit" and edit.namespace and not may_read(edit.namespace):
            text = f"you may not list the units of {edit.namespace!r}"
            error = EditError(number, FieldError("namespace", text))
            raise WrongEditError(error, Code.PERMISSION_DENIED)


# --- who answers ----------------------------------------------------------------------------------


EngineSource = Callable[[], State]
"""Returns a copy of the engine; raises what the application answers if there is none."""


class Horizons(Protocol):
    """Plays horizons."""

    def why_no_forecast(self) -> str:
        """Return why nothing is told over a time yet; "" if it is."""

    def answer(
        self, state: State, edits: Sequence[Edit], horizon_seconds: float, seed: int
    ) -> Horizon:
        """Return what edits change until a horizon; `state.engine` is used up.

        Raises:
            EditError: An edit is wrong, or cannot be tried.
        """


class WhatIfAnswers:
    """Answers what-if questions; callable from any thread.

    Args:
        source: Returns copies of the engine.
        is_leader: Returns whether this replica decides.
        budget: How much computing the questions may take.
        horizons: Plays horizons; None: this process does not.
    """

    def __init__(
        self,
        source: EngineSource,
        is_leader: Callable[[], bool],
        budget: QuestionBudget,
        horizons: Horizons | None = None,
    ) -> None:
        self._source = source
        self._is_leader = is_leader
        self._budget = budget
        self._horizons = horizons

    def answer(self, question: WhatIfQuestion, caller: str) -> WhatIfView:
        """Return what follows from the edits.

        Args:
            question: The edits.
            caller: The caller whose budget is charged (`question_caller.caller_of`).

        Raises:
            WrongEditError: INVALID_ARGUMENT: an edit is wrong, or all together cost too much; the
                detail names the edit and its field.
            QuestionError: RESOURCE_EXHAUSTED: the budget is spent.
        """
        edits = [each.as_edit() for each in question.edits]
        with self._budget.spend(caller):
            try:
                return self._answer(edits, question)
            except EditError as error:
                raise WrongEditError(error) from error
            finally:
                # Two copies of the engine have decided for all units; the next may need as much.
                give_back()

    def _answer(self, edits: Sequence[Edit], question: WhatIfQuestion) -> WhatIfView:
        state = self._source()
        seconds, seed, horizons = question.horizon_seconds, question.seed, self._horizons
        no_horizon = self._why_no_horizon(seconds)
        ahead = None if no_horizon else state.engine.fork()
        found = answer_at_once(state.engine, edits, state.moment)
        view = view_what_if(found, leader=self._is_leader())
        if seconds is None or horizons is None or ahead is None:
            return view.model_copy(update={"no_horizon": no_horizon})
        horizon = horizons.answer(state._replace(engine=ahead), edits, seconds, seed)
        if horizon.paths < LEAST_COMPARED:
            return view.model_copy(update={"no_horizon": _too_few(horizon.paths)})
        shown = view_horizon(horizon, seed, state.moment)
        return view.model_copy(update={"horizon": shown})

    def _why_no_horizon(self, seconds: float | None) -> str:
        """Return why a horizon is not played; "" if it is."""
        if seconds is None:
            return NOT_ASKED
        return NO_HORIZON if self._horizons is None else self._horizons.why_no_forecast()


def _too_few(paths: int) -> str:
    """Return why nothing is told of so few paths: no difference could be clear."""
    played = f"{paths or 'no'} future{'' if paths == 1 else 's'}"
    return (
        f"{played} could be played in time, and fewer than {LEAST_COMPARED} are too few to tell a"
        " difference from chance: ask for a shorter horizon"
    )


Forward = Callable[[Request, PostedBody], WhatIfView]
"""Passes the question of a request to another program."""


def add_what_if(
    app: FastAPI,
    answer: Callable[[WhatIfQuestion, str], WhatIfView],
    access: Guard,
    forward: Forward | None = None,
    caller_of: Callable[[Request], str] = caller_of,
) -> None:
    """Add the route to an application.

    Args:
        app: The application; it calls `access` first.
        answer: Answers a question of a caller; called on a thread of the server.
        access: The application's guard, which knows what its caller may read.
        forward: Answers questions with a horizon; None: `answer` does.
        caller_of: Returns who asks.
    """

    def what_if(request: Request, body: Question) -> WhatIfView:
        """What edits would change: which units start, which are refused or evicted, and why.

        With `horizonSeconds` also over a time, which needs the insight program. Units of namespaces
        that the caller may not read are counted, and not named.
        """
        question, may_read = read_json(body, WhatIfQuestion), may_read_for(access, request)
        refuse_edits_of_others(question, may_read)
        has_horizon = question.horizon_seconds is not None
        if forward is not None and has_horizon:
            view = _forward(forward, request, body)
        else:
            view = answer(question, caller_of(request))
        return hide(view, may_read)

    app.post(
        PATH,
        openapi_extra=request_body({JSON: schema_of(WhatIfQuestion)}),
        responses=problems(*BODY_PROBLEMS, 429, 503),
    )(what_if)


def _forward(forward: Forward, request: Request, body: PostedBody) -> WhatIfView:
    """Return the answer of the other program; without it, say what can be asked all the same."""
    try:
        return forward(request, body)
    except QuestionError as error:
        if error.code is Code.UNAVAILABLE:
            raise QuestionError(error.code, f"{error.detail}; {AT_ONCE}") from error
        raise
