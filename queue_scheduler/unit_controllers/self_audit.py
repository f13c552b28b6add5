"""Compares, each minute, what the scheduler keeps of each unit with the caches, and repairs it.

A round looks at every unit, pod and charge, in slices: each holds the engine's lock for a few keys
(`queue_scheduler.engine.audit`), and reads the caches meanwhile. Their locks are taken inside the
engine's, never the other way around: an informer calls its handlers without its lock.

A difference in one round may be a change on its way. So it is reported when the next round finds
the same again: counted, and told by an event on the unit. Then the unit is placed again. A repair
that did not last is counted again, after two more rounds; a difference that is not repaired, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import Final, NamedTuple, Protocol, TypeVar

import structlog

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.audit import (
    Caches,
    Difference,
    Kind,
    describe_wrong_budgets,
    describe_wrong_seats,
    describe_wrong_sums,
    find_repair,
    judge_charges,
    judge_pods,
    judge_units,
    list_charged,
    list_foreign,
    list_in_ledgers,
    list_pods,
    list_units,
)
from queue_scheduler.engine.engine import Engine
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock

ROUND_SECONDS: Final = 60.0
"""Between the starts of two rounds, if one does not take longer: a lost event is then found and
repaired within two minutes."""

KEYS_PER_SLICE: Final = 20
"""Judged in one hold of the engine's lock: at some 20 us each, half a millisecond."""

SLICES_PER_STEP: Final = 5
"""Judged before a rest, since waking the thread costs some 0.1 ms, half as much as a slice. Between
two of them the lock is free."""

REST_SECONDS: Final = 0.25
"""Between two steps: 400 keys a second, for half a percent of a core. So a round over up to 24,000
units and pods ends within its minute; with 100,000 units it takes more than four."""

MAX_DIFFERENCES: Final = 10_000
"""Differences of a round that are kept; above that, something is wrong that no repair of single
units can help."""

DIFFERS: Final = "AuditDifference"

KeyT = TypeVar("KeyT", bound=str)

log = structlog.get_logger("self_audit")


class AuditObserver(Protocol):
    """Counts differences."""

    def on_audit_difference(self, kind: Kind) -> None:
        """Take a difference that two rounds have found."""


class Stores(NamedTuple):
    """The caches that the engine is compared with."""

    units: IndexedStore[QueueUnit]
    pods: IndexedStore[Pod]

    def read_unit(self, key: str) -> QueueUnit | None:
        """Return the version of a unit that the engine was told, or should have been.

        What this process has written itself may be newer, until the watch delivers it.
        """
        seen = self.units.seen_by_handlers_of(key)
        return self.units.get(key) if seen is None else seen


class SelfAudit:
    """The step that compares the engine with the caches.

    Args:
        shared: The engine.
        stores: The caches.
        is_ready: Whether the caches are complete, and the engine has seen all of them.
        report: Takes events.
        observer: Counts differences.
        clock: The time of rounds.
        repairs: Whether units that differ are placed again.
    """

    def __init__(
        self,
        shared: SharedEngine,
        stores: Stores,
        is_ready: Callable[[], bool],
        report: Callable[[Notice], None],
        observer: AuditObserver,
        clock: Clock,
        *,
        repairs: bool,
    ) -> None:
        self._shared = shared
        self._stores = stores
        self._caches = Caches(stores.read_unit, stores.pods.get)
        self._is_ready = is_ready
        self._send = report
        self._observer = observer
        self._clock = clock
        self._repairs = repairs
        self._slices: Iterator[None] | None = None
        self._next_round = clock.monotonic() + ROUND_SECONDS
        self._ended = clock.monotonic()
        # What the last round and this one have found, and whether that is reported.
        self._before: dict[Difference, bool] = {}
        self._found: dict[Difference, bool] = {}

    def age_seconds(self) -> float:
        """Return how long ago the last full round ended; before the first, since the start."""
        return self._clock.monotonic() - self._ended

    def step(self) -> float:
        """Judge a few slices; return how many seconds to rest."""
        if self._slices is None:
            left = self._next_round - self._clock.monotonic()
            if left > 0:
                return left
            self._next_round = self._clock.monotonic() + ROUND_SECONDS
            if not self._is_ready():
                return ROUND_SECONDS
            self._found = {}
            self._slices = self._judge_all()
        slices, self._slices = self._slices, None  # an error ends the round
        for _ in range(SLICES_PER_STEP):
            if next(slices, self) is self:
                return self._end_round()
        self._slices = slices
        return REST_SECONDS

    def _end_round(self) -> float:
        # What is there again after a repair is a new difference.
        kept = {each: told for each, told in self._found.items() if not (told and self._repairs)}
        self._before, self._found = kept, {}
        self._ended = self._clock.monotonic()
        return max(0.0, self._next_round - self._ended)

    def _judge_all(self) -> Iterator[None]:
        """Judge a slice, then yield, until all is judged."""
        units = _keys_of(self._stores.units) | dict.fromkeys(self._shared.ask(list_units))
        for keys in _slices_of(units):
            self._take(self._shared.ask(judge_units, keys, self._caches))
            yield
        pods = _keys_of(self._stores.pods) | dict.fromkeys(self._shared.ask(list_pods))
        pods |= dict.fromkeys(self._shared.ask(list_foreign))
        for keys in _slices_of(pods):
            self._take(self._shared.ask(judge_pods, keys, self._caches))
            yield
        # Units first: the charge of one that was unknown, and is placed again, is its own.
        known = {record.uid for record in self._shared.copy_records()}
        charged = dict.fromkeys(self._shared.ask(list_charged))
        for nth in count():
            more = self._shared.ask(list_in_ledgers, nth)
            if more is None:
                break
            charged |= dict.fromkeys(more)
        for uids in _slices_of(uid for uid in charged if uid not in known):
            self._take(self._shared.ask(judge_charges, uids))
            yield
        yield from self._check_limits()
        self._check_tenants()

    def _check_limits(self) -> Iterator[None]:
        """Let the engine check what users have, then yield, slice by slice.

        The engine follows changes while it counts, so what differs is an error the first time.
        """
        if not self._shared.ask(lambda engine: bool(engine.usage.limits.rules)):
            return
        while True:
            self._shared.apply(Engine.check_limits, repairs=self._repairs)
            if not self._shared.ask(lambda engine: engine.limit_rules.is_checking):
                break
            yield
        for each in self._shared.ask(describe_wrong_sums):
            self._observer.on_audit_difference(each.kind)
            log.warning("what a user has differs", note=_note(each))

    def _check_tenants(self) -> None:
        """Check what budgets are charged, and who may be pending, on a copy of the engine."""
        if not self._shared.ask(_has_sums_of_tenants):
            return
        engine = self._shared.fork()
        wrong = [*describe_wrong_budgets(engine), *describe_wrong_seats(engine)]
        if wrong and self._repairs:
            self._shared.apply(Engine.recount_tenants)
        for each in wrong[:MAX_DIFFERENCES]:
            self._observer.on_audit_difference(each.kind)
            log.warning("what a tenant has differs", note=_note(each))

    def _take(self, differences: Sequence[Difference]) -> None:
        for each in differences:
            if each in self._found or len(self._found) >= MAX_DIFFERENCES:
                continue
            is_reported = self._before.get(each)
            self._found[each] = is_reported is not None
            if is_reported is False:
                self._report(each)

    def _report(self, difference: Difference) -> None:
        """Report a difference that two rounds have found, and place its unit again."""
        if self._repairs:
            self._shared.apply_derived(find_repair, difference, self._caches)
        self._observer.on_audit_difference(difference.kind)
        notice = _notice_of(difference, is_repaired=self._repairs)
        if notice is not None:
            self._send(notice)
        else:
            log.warning("a charge of no unit differs", uid=difference.uid, note=_note(difference))


def _keys_of(store: IndexedStore[QueueUnit] | IndexedStore[Pod]) -> dict[str, None]:
    return dict.fromkeys(each.metadata.key for each in store.list())


def _slices_of(keys: Iterable[KeyT]) -> Iterator[tuple[KeyT, ...]]:
    left = iter(keys)
    while keys_of_slice := tuple(islice(left, KEYS_PER_SLICE)):
        yield keys_of_slice


def _has_sums_of_tenants(engine: Engine) -> bool:
    return engine.usage.budgets.is_on or engine.usage.limits.is_on


def _notice_of(difference: Difference, *, is_repaired: bool) -> Notice | None:
    """Return the event on the unit, else on the pod; None if there is neither."""
    end = "it was placed again" if is_repaired else "it is not repaired (--audit-repair=false)"
    note = f"{_note(difference)}; {end}"
    if difference.unit:
        kind, key, uid = "QueueUnit", difference.unit, difference.uid
    elif difference.pod:
        kind, key, uid = "Pod", difference.pod, difference.pod_uid
    else:
        return None
    return Notice(kind=kind, key=key, uid=uid, reason=DIFFERS, note=note)


def _note(difference: Difference) -> str:
    about = f" of pod {difference.pod}" if difference.pod else ""
    return (
        f"the scheduler's state{about} differs ({difference.kind}): it has {difference.got};"
        f" by the objects it is {difference.want}"
    )
