"""Reconciles one unit: asks the judge about each of its checks, and writes what has changed.

    key --> caches --> judge --> verdicts --> one guarded patch --> (409: read, reconcile again)

All verdicts of a reconcile are written in one patch. If its answer is lost, the verdicts are
reported when the next reconcile finds them in the unit. Failures of the judge or the server are
retried with growing pauses; meanwhile the check keeps its state, and so does the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

from shared_api.admission_check_kit.judging import CleansUpUnits, Judge, JudgesAdmitted
from shared_api.admission_check_kit.verdicts import (
    OPEN_STATES,
    CheckState,
    CheckVerdict,
    checks_patch,
    differs_in_words_only,
    find_state,
    has_passed_checks,
    is_asked_about,
    state_after,
)
from shared_api.client.errors import ApiFailure, Conflict, NotFound
from shared_api.client.flow_control import Lane
from shared_api.client.resource_client import ResourceClient
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import AdmissionCheckState, QueueUnit
from shared_api.process.clock import Clock
from shared_api.timestamps import rfc3339
from shared_api.work_queue import WorkQueue

MESSAGE_SECONDS: Final = 60.0
"""Interval between two writes of a state that change only its message: an estimate of when nodes
arrive changes all the time, and each write wakes every watcher of units."""

NOT_LEADING_SECONDS: Final = 1.0
"""Pause before a retry of a key that was not written because too little of the lease was left."""

log = structlog.get_logger("unit_checks")


class Gate(Protocol):
    """Knows whether this process decides, and whether it may write."""

    def is_open(self) -> bool:
        """Return whether units are judged: this process leads, and its caches are complete."""

    def may_write(self) -> bool:
        """Return whether a write that begins now ends while this process leads."""


class VerdictObserver(Protocol):
    """Called on the workers' threads after writes; must be quick."""

    def on_verdict(self, unit: QueueUnit, state: AdmissionCheckState) -> None:
        """Count a change of a check's state."""

    def on_error(self) -> None:
        """Count a reconcile of a unit that failed for a reason other than a conflict."""


class NotLeadingError(Exception):
    """A write was not sent, because this process may stop leading before it would end."""


class UnitChecks:
    """Reconciles units. Several workers call `step`, each for a different key.

    Args:
        judge: The rule.
        units: The cache of units.
        own_check: Returns the check of a name if it belongs to this controller, else None.
        queue: Keys of the units to reconcile.
        client: Sends the patches.
        gate: Decides whether this process reconciles and may write.
        clock: The time, for verdicts.
        observer: Called for changes and errors.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of a reconcile, each named by the caller
        self,
        judge: Judge,
        *,
        units: IndexedStore[QueueUnit],
        own_check: Callable[[str], AdmissionCheck | None],
        queue: WorkQueue[str],
        client: ResourceClient,
        gate: Gate,
        clock: Clock,
        observer: VerdictObserver,
    ) -> None:
        self._judge = judge
        self._units = units
        self._own_check = own_check
        self._queue = queue
        self._client = client
        self._gate = gate
        self._clock = clock
        self._observer = observer
        # When only the message of a check was last written; used only by the worker that has the
        # unit's key.
        self._worded_at: dict[Uid, dict[str, float]] = {}
        # States that were sent and are not confirmed yet, and the unit that they are based on; used
        # only by the worker that has the unit's key.
        self._unconfirmed: dict[str, tuple[QueueUnit, Mapping[str, AdmissionCheckState]]] = {}

    def on_unit(self, old: QueueUnit | None, new: QueueUnit | None) -> None:
        """Queue a changed unit; units without checks are ignored."""
        if new is None and old is not None:
            self._worded_at.pop(old.metadata.uid, None)
        for unit in (new, old):
            if unit is not None and unit.status.admission_checks:
                self._queue.add(unit.metadata.key)

    def step(self) -> float | None:
        """Reconcile one unit; return the seconds until there is another (None: until woken)."""
        # A judge may raise anything; the loop logs and counts it.
        return self._queue.work(self._reconcile)

    def _reconcile(self, key: str) -> None:
        if not self._gate.is_open():
            return  # all keys are queued when the gate opens
        try:
            rest = self._judge_unit(key)
        except NotLeadingError:
            self._queue.add_after(key, NOT_LEADING_SECONDS)
        except Conflict as news:
            log.debug("the unit has changed", unit=key, error=str(news))
            self._read_again(key)
        except ApiFailure as failure:
            log.warning("could not reconcile a unit", unit=key, error=str(failure))
            self._observer.on_error()
            self._queue.add_rate_limited(key, at_least_seconds=failure.retry_after_seconds)
        else:
            self._queue.forget(key)
            if rest is not None:
                self._queue.add_after(key, rest)

    def _read_again(self, key: str) -> None:
        """Update the cache for one unit, then reconcile it again, with growing pauses."""
        asked = 0.0
        namespace, _, name = key.partition("/")
        try:
            self._units.note_written(self._client.get(QUEUE_UNITS, namespace, name))
        except NotFound:
            log.debug("the unit is gone", unit=key)
        except ApiFailure as failure:
            log.warning("could not read a unit", unit=key, error=str(failure))
            asked = failure.retry_after_seconds
        self._queue.add_rate_limited(key, at_least_seconds=asked)

    def _judge_unit(self, key: str) -> float | None:
        """Judge one unit; return the seconds until the next time (None: when something changes)."""
        unit = self._units.get(key)
        own: dict[str, AdmissionCheck] = {}
        rest: float | None = None
        if unit is None:
            self._unconfirmed.pop(key, None)
        else:
            self._report_confirmed(unit)
            for state in unit.status.admission_checks:
                check = self._own_check(state.name)
                if check is not None:
                    own[state.name] = check
            if own:
                self._queue.hand_over()  # a judge, like a write, may block
            rest = self._write(unit, self._ask(unit, own))
        if isinstance(self._judge, CleansUpUnits):
            self._judge.clean_up(key, unit, own.keys())
        return rest

    def _ask(self, unit: QueueUnit, own: Mapping[str, AdmissionCheck]) -> dict[str, CheckVerdict]:
        """Return the judge's verdicts on the checks that are open, by name."""
        verdicts: dict[str, CheckVerdict] = {}
        asked, admitted = is_asked_about(unit), has_passed_checks(unit)
        for name, check in own.items():
            state = find_state(unit, name)
            if state is None or state.state not in OPEN_STATES:
                continue
            if asked:
                verdicts[name] = self._judge.judge(unit, check)
            elif admitted and state.state == CheckState.READY:
                taken_back = self._ask_about_admitted(unit, check)
                if taken_back is not None:
                    verdicts[name] = taken_back
        return verdicts

    def _ask_about_admitted(self, unit: QueueUnit, check: AdmissionCheck) -> CheckVerdict | None:
        if not isinstance(self._judge, JudgesAdmitted):
            return None
        verdict = self._judge.judge_admitted(unit, check)
        evicts = verdict is not None and verdict.state in {CheckState.RETRY, CheckState.REJECTED}
        return verdict if evicts else None

    def _write(self, unit: QueueUnit, verdicts: Mapping[str, CheckVerdict]) -> float | None:
        """Write the states that verdicts change; return the seconds to the next time, or None."""
        now = rfc3339(self._clock.now())
        asked = (each.recheck_seconds for each in verdicts.values())
        rests = [seconds for seconds in asked if seconds is not None]
        changed: dict[str, AdmissionCheckState] = {}
        worded: list[str] = []
        for name, verdict in verdicts.items():
            before = find_state(unit, name)
            if before is None or (after := state_after(before, verdict, now)) == before:
                continue
            if differs_in_words_only(before, after):
                pause = self._pause_between_words(unit, name)
                if pause > 0:
                    rests.append(pause)
                    continue
                worded.append(name)
            changed[name] = after
        if changed:
            self._patch(unit, changed, Lane.LOW if len(worded) == len(changed) else Lane.NORMAL)
            for name in worded:
                self._worded_at.setdefault(unit.metadata.uid, {})[name] = self._clock.monotonic()
        return min(rests, default=None)

    def _pause_between_words(self, unit: QueueUnit, name: str) -> float:
        last = self._worded_at.get(unit.metadata.uid, {}).get(name)
        return 0.0 if last is None else last + MESSAGE_SECONDS - self._clock.monotonic()

    def _patch(
        self, unit: QueueUnit, changed: Mapping[str, AdmissionCheckState], lane: Lane
    ) -> None:
        if not self._gate.may_write():
            raise NotLeadingError
        meta = unit.metadata
        body = checks_patch(unit, changed)
        self._unconfirmed[meta.key] = (unit, changed)
        written = self._client.patch(
            QUEUE_UNITS, meta.namespace, meta.name, body, subresource="status", lane=lane
        )
        self._units.note_written(written)
        self._report_confirmed(written)

    def _report_confirmed(self, unit: QueueUnit) -> None:
        """Report the states that were sent last, if a newer version of the unit has them.

        The controller of a check is the only writer of its state.
        """
        meta = unit.metadata
        before, sent = self._unconfirmed.get(meta.key, (unit, {}))
        if before.metadata.resource_version == meta.resource_version:
            return
        del self._unconfirmed[meta.key]
        if before.metadata.uid != meta.uid:
            return
        for name, state in sent.items():
            old, new = find_state(before, name), find_state(unit, name)
            if old is not None and new is not None and old.state != new.state == state.state:
                self._observer.on_verdict(unit, new)
