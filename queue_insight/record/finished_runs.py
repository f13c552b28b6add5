"""Makes a `FinishedRun` of each run that ends, from the calls that an engine has played. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from queue_insight.insight.finished_run import FinishedRun, running_since, user_of
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.engine.engine import Engine
from shared_api.queue_unit_phases import CHARGED_PHASES, Phase
from shared_api.timestamps import read_time

_UNIT_CALLS: Final = {Engine.on_queue_unit.__name__, Engine.on_queue_unit_gone.__name__}
_ENDINGS: Final = {Phase.SUCCEED.value: "finished", Phase.FAILED.value: "failed"}


class _Run(msgspec.Struct, frozen=True, gc=False):
    """An admitted unit, and since when its pods run; None: they do not yet, or it is not known."""

    record: CachedUnit
    began: float | None


class FinishedRuns:
    """Follows the admitted units of one engine."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def begin(self, engine: Engine) -> None:
        """Begin again with a whole engine.

        Runs that have ended since the last call are left out, as it is not known when they did.
        """
        self._runs = {
            record.key: _Run(record, running_since(record.unit))
            for record in engine.units
            if _is_admitted(record)
        }

    def run_of(self, call: EngineCall, engine: Engine) -> FinishedRun | None:
        """Return the run that a call has ended, or None; `engine`: after the call."""
        if call.name not in _UNIT_CALLS:
            return None
        key = call.args[0].metadata.key
        before, after = self._runs.pop(key, None), engine.record(key)
        if after is not None and before is not None and after.uid != before.record.uid:
            self._follow(after, None, call.wall)
            return _finish(before, "deleted", call.wall)
        if after is not None and _is_admitted(after):
            self._follow(after, before, call.wall)
            return None
        if before is None:
            return None
        if after is None:
            return _finish(before, "deleted", call.wall)
        return _finish(before, _ENDINGS.get(after.unit.status.phase, "evicted"), call.wall)

    def _follow(self, record: CachedUnit, before: _Run | None, wall: float) -> None:
        if not _is_admitted(record):
            return
        began = None if before is None else before.began
        if began is None and record.unit.status.phase == Phase.RUNNING:
            # One that ran at the beginning, without saying since when, did not begin just now.
            ran = before is not None and before.record.unit.status.phase == Phase.RUNNING
            began = running_since(record.unit) or (None if ran else wall)
        self._runs[record.key] = _Run(record, began)


def _is_admitted(record: CachedUnit) -> bool:
    return record.unit.status.phase in CHARGED_PHASES


def _finish(run: _Run, ended_by: str, wall: float) -> FinishedRun:
    record = run.record
    unit, info, reference = record.unit, record.info, record.unit.spec.consumer_ref
    created = read_time(unit.metadata.creation_timestamp)
    return FinishedRun(
        unit=record.key,
        uid=record.uid,
        kind="" if reference is None else reference.kind,
        user=user_of(unit),
        queue=record.queue_name,
        quota="" if info is None else info.quota,
        priority=record.priority,
        charge={} if info is None else info.demand.total,
        created=wall if created is None else created.timestamp(),
        started=run.began,
        ended=wall,
        declared_seconds=unit.spec.maximum_execution_time_seconds,
        ended_by=ended_by,
    )
