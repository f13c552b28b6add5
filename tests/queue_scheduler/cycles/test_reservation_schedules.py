"""When the engine is told when windows are: with a reservation, and as time passes."""

from __future__ import annotations

from queue_scheduler.cycles.reservation_schedules import LOOK_SECONDS, ReservationSchedules
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.queue_reservation import QueueReservation, QueueReservationSpec
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.real_quotas import new_engine
from tests.reserved_world import build_reservation, build_spec

HOUR = 3600


class World:
    """An engine, and what follows reservations."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.shared = SharedEngine(engine, lambda _: None)
        self.schedules = ReservationSchedules(self.shared, self.clock)

    def spec(self, hours: float, rrule: str = "") -> QueueReservationSpec:
        """Return a spec whose first window, of two hours, begins in so many."""
        begins = self.clock.now().timestamp() + hours * HOUR
        text = self.clock.now().fromtimestamp(begins, self.clock.now().tzinfo)
        return build_spec(text.strftime("%Y-%m-%dT%H:%M:%S"), rrule=rrule)

    def tell(self, reservation: QueueReservation) -> None:
        """Tell the engine a reservation, as its informer does."""
        self.schedules.on_reservation(None, reservation)
        self.shared.apply(Engine.on_reservation, reservation)

    def windows(self) -> list[float]:
        """Return in how many hours the windows begin that are in force."""
        now = self.clock.now().timestamp()
        (rule,) = self.shared.ask(lambda engine: engine.reservations.rules())
        return [round((each.start - now) / HOUR, 2) for each in rule.windows]


def test_the_engine_knows_the_windows_with_the_reservation() -> None:
    world = World()
    world.tell(build_reservation(spec=world.spec(5)))
    assert world.windows() == [5]


def test_the_windows_of_the_last_valid_spec_are_known_after_a_restart() -> None:
    world = World()
    bad = build_spec(start="never")
    world.tell(build_reservation(spec=bad, in_force=(world.spec(5),)))
    assert world.windows() == [5]


def test_further_windows_follow_as_time_passes() -> None:
    world = World()
    world.tell(build_reservation(spec=world.spec(5, "FREQ=DAILY")))
    assert world.windows()[:2] == [5, 29]
    assert world.schedules.step() == LOOK_SECONDS
    world.clock.advance(6.5 * HOUR)
    assert world.schedules.step() == HOUR / 2, "when the present window is over"
    world.clock.advance(HOUR / 2)
    assert world.windows()[:2] == [-2, 22]
    world.schedules.step()
    found = world.windows()
    assert (found[0], len(found)) == (22, 64)


def test_nothing_is_told_without_a_change() -> None:
    world = World()
    reservation = build_reservation(spec=world.spec(5, "FREQ=WEEKLY"))
    world.tell(reservation)
    before = world.shared.changes
    world.schedules.step()
    world.schedules.on_reservation(reservation, reservation)
    world.schedules.on_reservation(reservation, None)
    assert world.shared.changes == before


def test_without_reservations_there_is_nothing_to_do() -> None:
    world = World()
    assert world.schedules.step() == LOOK_SECONDS
    assert world.shared.changes == 0
