"""What the routes of the debug API answer, asked of the engine of a dump."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec
from pydantic import BaseModel

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.budget_forecasts import show_page
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.explanations import Explanations
from queue_insight.debug_api.forecast_routes import Forecasts, Pace, forecast_scope
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.what_if_routes import WhatIfAnswers, WhatIfQuestion
from queue_insight.forecast.all_units import Settings
from queue_insight.forecast.model_loading import load_run_time_model
from queue_insight.insight_program.horizons import Horizons
from queue_insight.offline.errors import AnswerError
from queue_insight.offline.load import Loaded
from queue_scheduler.cache.known_units import in_key_order, units_by_key
from queue_scheduler.cycles.engine_reader import OwnEngine
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.parameters import MAX_PAGE
from queue_scheduler.debug_api.reservation_views import ReservationView
from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.json_body import JSON, YAML, PostedBody, read_json
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import ConsumerReference
from shared_api.process.clock import SystemClock
from shared_api.question_errors import QuestionError

MOST_SIMILAR: Final = 3
ASKER: Final = ""
"""The caller whose budget is charged: there is one user."""
FOREVER: Final = 1e9
"""Seconds; they may be many, since no other caller waits."""


class OwnedUnit(NamedTuple):
    """A unit, and kind, apiVersion and name of its job; "" without a job."""

    namespace: str
    name: str
    kind: str
    api_version: str
    job: str


class DumpClock(SystemClock):
    """The wall time of a dump, at which the engine's state is; the rest of time goes on."""

    def __init__(self, wall: datetime) -> None:
        self._wall = wall

    def now(self) -> datetime:
        """Return the time of the dump."""
        return self._wall


class OfflineAnswers:
    """Answers from a dump, as the JSON of the routes.

    Args:
        loaded: The dump and its engine.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._clock = DumpClock(loaded.moment.wall)
        shared = self._shared = OwnEngine(loaded.engine)
        self._snapshots = Snapshots(shared, self._clock.now)
        self._state_answers = StateAnswers(shared, self._is_leader, self._clock.now)
        self._budget = QuestionBudget(self._clock)
        self._answers = Answers(self._state_answers, self._namespace, budget=self._budget)

    def _is_leader(self) -> bool:
        return self._loaded.dump.leader

    def _namespace(self, name: str) -> Namespace:
        known = self._loaded.dump.namespaces
        bare = Namespace(metadata=ObjectMeta(name=name))
        return next((each for each in known if each.metadata.name == name), bare)

    @property
    def notes(self) -> tuple[str, ...]:
        """What may make answers differ from those of the cluster, as sentences."""
        return self._loaded.notes

    def now(self) -> datetime:
        """Return the time of the dump."""
        return self._clock.now()

    # --- units --------------------------------------------------------------------------------

    def jobs(self) -> Iterator[OwnedUnit]:
        """Yield all units with their jobs, by name."""
        for record in in_key_order(self._loaded.engine.units):
            meta = record.unit.metadata
            job = record.unit.spec.consumer_ref or ConsumerReference()
            yield OwnedUnit(meta.namespace, meta.name, job.kind, job.api_version, job.name)

    def explain(self, namespace: str, name: str, *, changes: bool = False) -> bytes:
        """Return why a unit waits; `changes`: also what would start it.

        Raises:
            AnswerError: The dump has no such unit.
        """
        self._check(f"{namespace}/{name}")
        if changes:
            return to_json(self._answers.explain_with_changes(namespace, name, ASKER))
        return to_json(self._answers.explain(namespace, name))

    def forecast(self, namespace: str, name: str) -> bytes:
        """Return when a unit starts and ends, by what is known from the dump.

        Raises:
            AnswerError: The dump has no such unit, or it does not wait in a queue.
        """
        key = f"{namespace}/{name}"
        self._check(key)
        try:
            return to_json(self._forecasts().of_unit(namespace, name))
        except QuestionError as error:
            raise AnswerError(f"{key} does not wait in a queue, so it has no forecast") from error

    def queue_forecast(self, queue: str) -> bytes:
        """Return when the waiting units of a queue start and end, in its order."""
        return to_json(self._forecasts().of_queue(queue, 0, MAX_PAGE))

    def budget_forecast(self, quota: str) -> bytes:
        """Return when the budgets of a quota are spent: whoever has a dump may see all of it."""
        found = self._forecasts().of_budgets(quota)
        return to_json(show_page(found, [each.row for each in found.items], 0, MAX_PAGE))

    def units(self) -> bytes:
        """Return the list of all units, by name."""
        known = in_key_order(self._loaded.engine.units)
        found = (self._snapshots.unit(record.key) for record in known)
        return _list_of(views.view_unit(unit, None) for unit in found if unit is not None)

    def queues(self) -> bytes:
        """Return the list of all queues, by name."""
        return _list_of(self._queues())

    def reservations(self) -> bytes:
        """Return the list of all reservations, by name."""
        return _list_of(self._reservations())

    def quota_objects(self) -> list[dict[str, Any]]:
        """Return the quotas as the API server has them, as far as the scheduler reads them."""
        dump = self._loaded.dump
        kinds = (dump.elastic_quotas, dump.elastic_quota_trees, dump.resource_quotas)
        return [
            {"kind": type(each).__name__, **msgspec.to_builtins(each)}
            for objects in kinds
            for each in objects
        ]

    def policy_objects(self) -> list[dict[str, Any]]:
        """Return the QuotaPolicies as the API server has them."""
        policies = self._loaded.dump.policies.objects
        return [msgspec.json.decode(msgspec.json.encode(each)) for each in policies]

    def _reservations(self) -> Iterator[ReservationView]:
        offset = 0
        while page := self._state_answers.reservations(offset, MAX_PAGE).items:
            yield from page
            offset += len(page)

    def _queues(self) -> Iterator[views.QueueView]:
        offset = 0
        while page := self._state_answers.queues(offset, MAX_PAGE).items:
            yield from page
            offset += len(page)

    def _forecasts(self) -> Forecasts:
        forecasts = Forecasts(
            self.state,
            self._clock,
            load_run_time_model()(),
            Settings(budgets=True),
            since=self._known_since(),
            pace=Pace(budget_seconds=FOREVER),
            forecast_scope=forecast_scope(
                self._shared, Explanations(self._shared, self._clock.now)
            ),
        )
        for run in self._loaded.dump.runs:
            forecasts.learn(run)
        while forecasts.age_seconds() is None:
            forecasts.step()
        return forecasts

    def _check(self, key: str) -> None:
        records = units_by_key(self._loaded.engine.units)
        if key not in records:
            similar = get_close_matches(key, records, MOST_SIMILAR)
            meant = f"; similar: {', '.join(similar)}" if similar else ""
            raise AnswerError(f"the dump has no queue unit {key}{meant}")

    # --- questions with a body ----------------------------------------------------------------

    def submit(
        self,
        manifest: bytes,
        namespace: str,
        *,
        is_json: bool,
        changes: bool = False,
    ) -> bytes:
        """Return what becomes of a manifest.

        Raises:
            AnswerError: It cannot be read.
        """
        body = PostedBody(JSON if is_json else YAML, manifest)
        try:
            return to_json(
                self._answers.tries.answer(
                    body, namespace, lambda _: None, ASKER, with_changes=changes
                )
            )
        except QuestionError as error:
            raise AnswerError(error.detail) from error

    def what_if(self, question: bytes) -> bytes:
        """Return what edits would change.

        Args:
            question: JSON, as it is posted.

        Raises:
            AnswerError: They cannot be read, or cannot be made.
        """
        horizons = Horizons(load_run_time_model()(), self._known_since(), self._clock)
        for run in self._loaded.dump.runs:
            horizons.learn(run)
        answers = WhatIfAnswers(
            self.state,
            self._is_leader,
            self._budget,
            horizons,
        )
        try:
            parsed = read_json(PostedBody(JSON, question), WhatIfQuestion)
            return to_json(answers.answer(parsed, ASKER))
        except QuestionError as error:
            raise AnswerError(error.detail) from error

    # --- the state ----------------------------------------------------------------------------

    def state(self) -> State:
        """Return a copy of the engine, which belongs to the caller, and its time."""
        return State(self._loaded.engine.fork(), self._loaded.moment)

    def _known_since(self) -> datetime:
        """Return from when on arrivals are known: since the first run that has ended."""
        runs = self._loaded.dump.runs
        return datetime.fromtimestamp(runs[0].ended, UTC) if runs else self._loaded.moment.wall


def to_json(answer: BaseModel) -> bytes:
    """Return an answer as the routes send it."""
    return answer.model_dump_json(by_alias=True).encode()


def _list_of(answers: Iterable[BaseModel]) -> bytes:
    return b"[" + b",".join(map(to_json, answers)) + b"]"
