"""What still runs as a window begins is evicted, where its reservation asks for that."""

from __future__ import annotations

from dataclasses import replace as replace_dataclass
from datetime import timedelta
from typing import Any

from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_controllers.window_evictions import SWEEP_SECONDS, WindowEvictions
from shared_api.evictions import ends_in_backoff
from tests.object_states import condition_of
from tests.queue_scheduler.shell_kit import ShellKit
from tests.queue_scheduler.unit_news import access_of
from tests.reserved_world import build_reservation, build_spec, schedules_at
from tests.stepped_host import exhaust


class Reserved:
    """A unit that runs, and a window of two hours that begins in one."""

    def __init__(self, **fields: Any) -> None:
        self.kit = kit = ShellKit()
        kit.add_quota("team", cpu=4)
        kit.add_unit("a")
        self.write(
            {
                "phase": "Running",
                "admissions": [
                    {"name": "main", "replicas": 2, "running": 2, "resources": {"cpu": "2"}}
                ],
            }
        )
        self.begin = kit.clock.now() + timedelta(hours=1)
        self.watch = WindowEvictions(access_of(kit), kit.clock)
        self.state(**{"at_start": "Evict", **fields})

    def state(self, **fields: Any) -> None:
        spec = build_spec(f"{self.begin:%Y-%m-%dT%H:%M:%SZ}", **fields)
        reservation = build_reservation(spec=spec)
        second = int(self.kit.clock.now().timestamp())
        self.kit.shared.apply(Engine.on_schedules, schedules_at(reservation, second))
        self.kit.shared.apply(Engine.on_reservation, reservation)

    def write(self, status: dict[str, Any]) -> None:
        patch = {"namespace": "default", "subresource": "status"}
        self.kit.direct.patch("queueunits", "a", {"status": status}, **patch)
        self.kit.learn("a")

    def work(self, seconds: float) -> None:
        self.kit.clock.advance(seconds)
        for _ in range(2):
            exhaust(self.watch.step)
            self.kit.send()

    def evicted(self) -> tuple[str, str]:
        found = condition_of(self.kit.unit("a"), "Evicted")
        return found.get("status", ""), found.get("reason", "")


def test_it_is_evicted_its_grace_before() -> None:
    reserved = Reserved()
    reserved.work(3600 - 300 - 1)
    assert reserved.evicted() == ("", "")
    reserved.work(SWEEP_SECONDS)
    assert reserved.evicted() == ("True", "ReservedFor")
    assert "QueueReservation upgrade" in condition_of(reserved.kit.unit("a"), "Evicted")["message"]


def test_it_runs_on_where_that_is_not_asked_for() -> None:
    reserved = Reserved(at_start="Continue")
    reserved.work(3600)
    assert reserved.evicted() == ("", "")


def test_a_window_that_moves_between_the_look_and_the_write_evicts_nothing() -> None:
    reserved = Reserved()
    reserved.kit.clock.advance(3600)
    reserved.watch._find_units()  # noqa: SLF001 - the first half of a step
    reserved.state(at_start="Continue")
    reserved.work(0)
    assert reserved.evicted() == ("", "")


def test_a_follower_evicts_nothing_and_the_next_leader_does() -> None:
    reserved = Reserved()
    leads = False
    access = replace_dataclass(access_of(reserved.kit), may_write=lambda: leads)
    reserved.watch = WindowEvictions(access, reserved.kit.clock)
    reserved.work(3600 + 60)
    assert reserved.evicted() == ("", "")
    leads = True
    reserved.work(SWEEP_SECONDS)
    assert reserved.evicted() == ("True", "ReservedFor"), "within the window"


def test_it_is_pending_again_without_a_backoff() -> None:
    reserved = Reserved()
    reserved.work(3600)
    unit = reserved.kit.shared.ask(Engine.record, "default/a")
    assert unit is not None
    assert not ends_in_backoff(unit.unit)
