"""What the routes of the debug API answer, asked of the engine of a dump."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final, TypeVar

import msgspec
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.app import MAX_PAGE, DebugApi
from queue_scheduler.debug_api.engine_state import State
from queue_scheduler.debug_api.forecast_routes import Forecasts, ForecastView, Pace
from queue_scheduler.debug_api.question_budget import QuestionBudget
from queue_scheduler.debug_api.snapshots import Snapshots
from queue_scheduler.debug_api.try_routes import TryRoutes
from queue_scheduler.debug_api.try_views import TryView
from queue_scheduler.debug_api.what_if_routes import WhatIfAnswers, WhatIfQuestion, WhatIfView
from queue_scheduler.forecast.all_units import Settings
from queue_scheduler.insight_program.horizons import Horizons
from queue_scheduler.offline.load import Loaded
from queue_scheduler.setup.plugin_loading import load_run_time_model
from queue_scheduler.setup.quota_readers import QUOTA_READERS
from shared_api.debug_api.json_body import JSON, YAML, PostedBody, read_json
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.process.clock import SystemClock

MOST_SIMILAR: Final = 3
FOREVER: Final = 1e9
"""Seconds: nobody else waits for the answer."""

AnswerT = TypeVar("AnswerT")


class AnswerError(Exception):
    """A question cannot be answered; the message is a sentence."""


class DumpClock(SystemClock):
    """The wall time of a dump, at which the engine's state is; the rest of time goes on."""

    def __init__(self, wall: datetime) -> None:
        self._wall = wall

    def now(self) -> datetime:
        """Return the time of the dump."""
        return self._wall


class OfflineAnswers:
    """Answers from a dump.

    Args:
        loaded: The dump and its engine.
    """

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._clock = DumpClock(loaded.moment.wall)
        shared = SharedEngine(loaded.engine, lambda _: None)
        self._snapshots = Snapshots(shared, QUOTA_READERS, self._clock.now)
        self._api = DebugApi(
            shared, QUOTA_READERS, self._is_leader, self._clock.now, self._namespace
        )

    def _is_leader(self) -> bool:
        return self._loaded.dump.leader

    def _namespace(self, name: str) -> Namespace:
        known = self._loaded.dump.namespaces
        bare = Namespace(metadata=ObjectMeta(name=name))
        return next((each for each in known if each.metadata.name == name), bare)

    # --- units --------------------------------------------------------------------------------

    def explain(self, key: str, *, with_changes: bool = False) -> views.ExplainView:
        """Return why a unit waits.

        Raises:
            AnswerError: The dump has no such unit.
        """
        namespace, name = self._known(key)
        ask = self._api.explain_with_changes if with_changes else self._api.explain
        return ask(namespace, name)

    def forecast(self, key: str) -> ForecastView:
        """Return when a unit starts and ends, by what is known from the dump.

        Raises:
            AnswerError: The dump has no such unit, or it does not wait in a queue.
        """
        namespace, name = self._known(key)
        forecasts = Forecasts(
            self.state,
            self._clock,
            load_run_time_model()(),
            Settings(),
            since=self._known_since(),
            pace=Pace(budget_seconds=FOREVER),
        )
        for run in self._loaded.dump.runs:
            forecasts.learn(run)
        while forecasts.age_seconds() is None:
            forecasts.step()
        try:
            return forecasts.of_unit(namespace, name)
        except HTTPException as error:
            raise AnswerError(f"{key} does not wait in a queue, so it has no forecast") from error

    def units(self) -> Iterator[views.UnitView]:
        """Yield all units, by name."""
        for key in sorted(self._loaded.engine.units.records):
            unit = self._snapshots.unit(key)
            if unit is not None:
                yield views.view_unit(unit, None)

    def queues(self) -> Iterator[views.QueueView]:
        """Yield all queues, by name."""
        offset = 0
        while page := self._api.queues(offset, MAX_PAGE).items:
            yield from page
            offset += len(page)

    def _known(self, key: str) -> tuple[str, str]:
        records = self._loaded.engine.units.records
        if key not in records:
            similar = get_close_matches(key, records, MOST_SIMILAR)
            meant = f"; similar: {', '.join(similar)}" if similar else ""
            raise AnswerError(f"the dump has no queue unit {key}{meant}")
        namespace, _, name = key.partition("/")
        return namespace, name

    # --- questions with a body ----------------------------------------------------------------

    def submit(
        self, manifest: bytes, *, is_json: bool, namespace: str, with_changes: bool = False
    ) -> TryView:
        """Return what becomes of a manifest.

        Raises:
            AnswerError: It cannot be read.
        """
        routes = TryRoutes(
            self._loaded.engine.fork, self._clock.now, self._is_leader, self._namespace, self._clock
        )
        body = PostedBody(JSON if is_json else YAML, manifest)
        try:
            return routes.answer(body, namespace, lambda _: None, with_changes=with_changes)
        except HTTPException as error:
            raise AnswerError(str(error.detail)) from error

    def what_if(self, edits: bytes, horizon_seconds: float | None, seed: int) -> WhatIfView:
        """Return what edits would change.

        Args:
            edits: JSON: the list, or the whole question as it is posted.
            horizon_seconds: How far to look ahead; None: as the question says.
            seed: The seed of that, unless the question has one.

        Raises:
            AnswerError: They cannot be read, or cannot be made.
        """
        horizons = Horizons(load_run_time_model()(), self._known_since(), self._clock)
        for run in self._loaded.dump.runs:
            horizons.learn(run)
        answers = WhatIfAnswers(
            self.state,
            self._is_leader,
            QuestionBudget(self._clock),
            horizons,
        )
        try:
            question = read_json(PostedBody(JSON, _as_question(edits)), WhatIfQuestion)
            if horizon_seconds is not None:
                told = question.model_dump(by_alias=True, exclude_unset=True)
                told |= {"horizonSeconds": horizon_seconds, "seed": told.get("seed", seed)}
                question = WhatIfQuestion.model_validate(told)
            return answers.answer(question)
        except HTTPException as error:
            raise AnswerError(str(error.detail)) from error
        except ValidationError as error:
            raise AnswerError(str(error.errors()[0]["msg"])) from error

    # --- the state ----------------------------------------------------------------------------

    def state(self) -> State:
        """Return a copy of the engine, which belongs to the caller, and its time."""
        return State(self._loaded.engine.fork(), self._loaded.moment)

    def _known_since(self) -> datetime:
        """Return from when on arrivals are known: since the first run that has ended."""
        runs = self._loaded.dump.runs
        return datetime.fromtimestamp(runs[0].ended, UTC) if runs else self._loaded.moment.wall


def _as_question(edits: bytes) -> bytes:
    """Return a question; a bare list is that of its edits."""
    return b'{"edits":' + edits + b"}" if edits.lstrip()[:1] == b"[" else edits


def to_json(answer: object) -> bytes:
    """Return an answer as the routes send it, indented."""
    if isinstance(answer, list):
        data = b"[" + b",".join(to_json(each) for each in answer) + b"]"
    else:
        data = answer.model_dump_json(by_alias=True).encode()  # type: ignore[attr-defined] # a View
    return msgspec.json.format(data)
