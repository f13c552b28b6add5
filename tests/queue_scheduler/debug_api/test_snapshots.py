"""Little is read at a time under the engine's lock, however much is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from queue_scheduler.cache.known_units import pending_units
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.parameters import MAX_PAGE
from queue_scheduler.debug_api.snapshots import BATCH, Snapshots
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from shared_api.debug_api.access import open_access
from shared_api.quantity import format_amount
from shared_api.testing.object_builders import elastic_quota, queue, queue_unit
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

QUEUES = 7
WAITING = 2 * BATCH + 1
UNITS = 2 * WAITING + 1


class SpiedEngine(SharedEngine):
    """Records the keys that were touched in each hold of its lock."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, lambda _: None)
        self.is_held = False
        self.holds: list[set[str]] = []
        engine.units.records = SpiedRecords(self, engine.units.records)

    def ask(self, question: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._held():
            return super().ask(question, *args, **kwargs)

    def fork(self) -> Engine:
        with self._held():
            return super().fork()

    def touch(self, key: str) -> None:
        """Record a look-up; forks are read without the lock."""
        if self.is_held:
            self.holds[-1].add(key)

    @contextmanager
    def _held(self) -> Iterator[None]:
        self.is_held = True
        self.holds.append(set())
        yield
        self.is_held = False


class SpiedRecords(dict[str, CachedUnit]):
    """Records that report when they are touched."""

    def __init__(self, spy: SpiedEngine, records: dict[str, CachedUnit]) -> None:
        super().__init__(records)
        self._spy = spy

    def __getitem__(self, key: str) -> CachedUnit:
        self._spy.touch(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._spy.touch(key)
        return super().get(key, default)


@pytest.fixture
def crowd(kit: ShellKit) -> ShellKit:
    """Queues `q0`, `q1` ...: a unit admitted, half of the others in the queue, half on hold."""
    for number in range(QUEUES):
        name = f"q{number}"
        kit.shared.apply(Engine.on_quota, elastic_quota(name, max={"cpu": 1}, min={"cpu": 1}))
        kit.shared.apply(Engine.on_queue, queue(name))
        for unit in range(UNITS):
            meta = {"uid": f"{name}-{unit}", "resourceVersion": "5"}
            cpu, is_active = 1 + unit % 6, unit % 2 == 0
            found = queue_unit(
                f"{name}-u{unit}",
                quota=name,
                requests={"cpu": cpu},
                metadata=meta,
                active=is_active,
            )
            kit.shared.apply(Engine.on_queue_unit, found)
        kit.dequeue(name)
        kit.decide(name)
    return kit


@pytest.mark.parametrize(
    "path",
    [
        f"/debug/queues?limit={MAX_PAGE}",
        f"/debug/queues/q3?limit={MAX_PAGE}",
        f"/debug/queues/q3?offset={WAITING - 1}",
        "/debug/queueunits/default/q3-u8",
        "/debug/quotas",
        f"/apis/v1/queue?limit={MAX_PAGE}",
        "/apis/v1/userquota",
    ],
)
def test_a_hold_of_the_lock_reads_at_most_a_batch(
    crowd: ShellKit, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    spy = SpiedEngine(crowd.engine)
    formatted_under_lock: list[bool] = []

    def spied_format(resource: str, amount: int) -> str:
        formatted_under_lock.append(spy.is_held)
        return format_amount(resource, amount)

    monkeypatch.setattr("queue_scheduler.debug_api.views.format_amount", spied_format)
    state = StateAnswers(spy, lambda: True)
    with served(build_app(state, open_access, (), "0")) as client:
        assert client.get(path).status_code == 200
    assert spy.holds
    assert max(map(len, spy.holds)) <= BATCH
    assert not any(formatted_under_lock)


def snapshots_of(kit: ShellKit) -> Snapshots:
    return Snapshots(kit.shared, VirtualClock().now)


def test_all_units_come_in_order_across_batches(crowd: ShellKit) -> None:
    page = snapshots_of(crowd).page("q3", 0, MAX_PAGE)
    assert [unit.position for unit in page.units] == list(range(1, WAITING + 1))
    assert [unit.record for unit in page.units] == list(pending_units(crowd.engine.units, "q3"))
    assert not page.has_more


@pytest.mark.parametrize(
    ("offset", "limit", "want"),
    [
        pytest.param(0, WAITING, False, id="all of it"),
        pytest.param(0, WAITING - 1, True, id="all but one"),
        pytest.param(WAITING - 1, 1, False, id="the last"),
        pytest.param(WAITING, 1, False, id="behind the end"),
    ],
)
def test_a_page_knows_whether_the_queue_continues(
    crowd: ShellKit, offset: int, limit: int, want: bool
) -> None:
    assert snapshots_of(crowd).page("q3", offset, limit).has_more is want


def test_a_unit_that_left_while_the_queue_was_copied_is_left_out(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [kit.add_unit(name) for name in ("a", "b", "c")]
    ask = kit.shared.ask

    def ask_late(question: Any, *args: Any) -> Any:
        answer = ask(question, *args)
        if len(kit.engine.units.records) == len(units):
            kit.dequeue()
            kit.shared.apply(Engine.on_queue_unit_gone, units[1])
        return answer

    monkeypatch.setattr(kit.shared, "ask", ask_late)
    page = snapshots_of(kit).page("team", 0, 10)
    assert [(unit.record.key, unit.position) for unit in page.units] == [("default/c", 3)]
