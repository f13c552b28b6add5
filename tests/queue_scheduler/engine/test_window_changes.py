"""Windows in an engine: who starts, who waits until when, and who is not held back."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest

from queue_scheduler.decision import Dequeue, Reason
from queue_scheduler.reservations.expansion import expand_all
from queue_scheduler.reservations.queue_reservations import keys_of
from shared_api.objects.queue_reservation import ReservationScope
from tests.budget_world import HOUR, at
from tests.properties.engine_kit import admitted, build_quota, build_unit, declaring
from tests.reserved_world import ReservedWorld, build_reservation, build_spec

T1, T2 = at("2026-12-03T18:00"), at("2026-12-03T20:00")
VISION = ReservationScope(quotas=("vision",))


def declared(seconds: int) -> float:
    return seconds / HOUR


class TestMaintenance:
    def test_maintenance_lets_start_what_ends_before_it(self) -> None:
        world = ReservedWorld()
        world.reserve()
        assert world.ask("fits", 1, declared(6600)) == ["fits"]
        assert world.ask("long", 1, declared(6601)) == []
        assert world.why("long").reason is Reason.RESERVED_FOR
        found = world.window("long")
        assert (found.name, found.start, found.end) == ("upgrade", T1, T2)
        assert found.would_start_seconds == 6600
        assert world.wait("2026-12-03T21:00") == [("long", T2)]

    def test_what_was_just_in_time_is_late_a_minute_later(self) -> None:
        world = ReservedWorld("2026-12-03T16:01")
        world.reserve()
        assert world.ask("late", 1, declared(6600)) == []
        assert world.window("late").would_start_seconds == 6540

    def test_nothing_starts_in_the_window(self) -> None:
        world = ReservedWorld("2026-12-03T17:59")
        world.reserve(margin="0")
        assert world.ask("minute", 1, declared(60)) == ["minute"]
        world.wait("2026-12-03T18:00")
        assert world.ask("none", 1, 0) == []
        assert world.wait("2026-12-03T19:59:59") == []
        assert world.wait("2026-12-03T20:00") == [("none", T2)]

    def test_a_moved_or_deleted_window_wakes(self) -> None:
        world = ReservedWorld()
        world.reserve()
        assert world.ask("long", 1, 2) == []
        assert world.reserve(start="2026-12-03T18:09:59") == []
        assert world.reserve(start="2026-12-03T18:10") == ["long"]
        assert world.ask("longer", 1, 3) == []
        assert world.unreserve() == ["longer"]

    @pytest.mark.parametrize(
        "eased",
        [
            pytest.param({"margin": "0"}, id="a shorter margin"),
            pytest.param({"scope": ReservationScope(quotas=("speech",))}, id="another quota"),
        ],
    )
    def test_what_is_eased_wakes(self, eased: dict[str, Any]) -> None:
        world = ReservedWorld()
        world.reserve()
        assert world.ask("long", 1, 2) == []
        assert world.reserve(**eased) == ["long"]

    def test_the_kind_may_go(self) -> None:
        world = ReservedWorld()
        world.reserve()
        world.ask("long", 1, 2)
        world.workers.wake(world.engine.on_reservations_served(are_served=False))
        assert world.rest() == ["long"]

    def test_only_quotas_of_the_scope_are_concerned_and_those_below_them(self) -> None:
        world = ReservedWorld()
        world.reserve(scope=VISION)
        assert world.ask("long", 1, 2) == []
        assert world.ask("other", 1, 2, "speech") == ["other"]
        assert world.reserve(scope=ReservationScope(quotas=("top",))) == []
        assert world.ask("below", 1, 2, "speech") == []

    def test_a_quota_that_moves_into_the_scope_is_concerned(self) -> None:
        world = ReservedWorld()
        world.engine.on_quota(build_quota("far", cpu=1000))
        world.reserve(scope=ReservationScope(quotas=("far",)))
        moved = build_quota("speech", cpu=1000, parent="far")
        world.workers.wake(world.engine.on_quota(moved))
        assert world.ask("long", 1, 2, "speech") == []
        back = build_quota("speech", cpu=1000, parent="top")
        world.workers.wake(world.engine.on_quota(back))
        assert world.rest() == ["long"]


class TestUndeclared:
    def test_undeclared_is_assumed_to_run_for_so_long(self) -> None:
        world = ReservedWorld("2026-12-02T17:50")
        world.reserve()
        assert world.ask("silent", 1, None) == ["silent"]
        world.wait("2026-12-02T17:50:01")
        assert world.ask("late", 1, None) == []
        found = world.window("late")
        assert found.declares_nothing
        assert found.would_start_seconds == 24 * HOUR - 1, "so much it may declare"
        assert world.wait("2026-12-03T20:00") == [("late", T2)]

    def test_undeclared_wait(self) -> None:
        world = ReservedWorld("2026-11-01T00:00")
        assert world.ask("early", 1, None) == ["early"]
        world.reserve(undeclared="Wait")
        assert world.ask("silent", 1, None) == []
        assert world.ask("declares", 1, 100) == ["declares"]
        assert world.wait("2026-12-04T00:00") == [("silent", T2)]

    def test_undeclared_start(self) -> None:
        world = ReservedWorld("2026-12-03T17:59:59")
        world.reserve(undeclared="Start")
        assert world.ask("silent", 1, None) == ["silent"]
        world.wait("2026-12-03T18:00")
        assert world.ask("late", 1, None) == [], "not in the window"
        assert world.wait("2026-12-03T20:00") == [("late", T2)]


class TestHoldsBackNobody:
    @pytest.mark.parametrize("policy", ["Priority", "Block", "FIFO"])
    def test_others_pass(self, policy: str) -> None:
        world = ReservedWorld(policy=policy)
        world.reserve()
        assert world.ask("long", 1, 2, priority=9) == []
        assert world.ask("short", 1, 1) == ["short"]

    def test_others_pass_where_the_queue_backfills(self) -> None:
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve()
        assert world.ask("long", 4, 2) == []
        assert world.ask("small", 1, 1) == ["small"]
        assert world.ask("rest", 3, 1) == ["rest"], "the long one does not fit now, and is no head"
        assert world.why("long").reason is Reason.RESERVED_FOR

    def test_it_is_no_head_even_if_it_does_not_fit_any_more(self) -> None:
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve(scope=VISION)
        assert world.ask("long", 4, 2) == []
        assert world.ask("small", 1, 1, "speech") == ["small"]
        assert world.ask("after", 3, 1000, "speech") == ["after"]

    def test_it_evicts_nobody(self) -> None:
        world = ReservedWorld(cpu=4, evicts=True)
        assert world.ask("low", 4, 1) == ["low"]
        world.reserve()
        assert world.ask("high", 4, 2, priority=9) == []
        assert world.why("high").reason is Reason.OVER_PARENT_MAX
        assert world.evictions() == []
        world.wait("2026-12-03T19:59:59")
        assert world.evictions() == []
        world.wait("2026-12-03T20:00")
        assert world.evictions() == ["high"], "after the window"

    def test_it_evicts_once_the_window_goes(self) -> None:
        world = ReservedWorld(cpu=4, evicts=True)
        world.ask("low", 4, 1)
        world.reserve()
        world.ask("high", 4, 2, priority=9)
        world.unreserve()
        assert world.evictions() == ["high"]

    def test_what_can_end_in_time_evicts(self) -> None:
        world = ReservedWorld(cpu=4, evicts=True)
        world.ask("low", 4, 1)
        world.reserve()
        world.ask("high", 4, 1, priority=9)
        assert world.evictions() == ["high"]


class TestBackfill:
    """The promise to a head is the first time at which it fits and runs into no window."""

    def test_backfill_and_windows(self) -> None:
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve()
        assert world.ask("runs", 3, 1) == ["runs"]
        assert world.ask("head", 4, 1.5) == []
        assert world.ask("short", 1, 1.75) == ["short"], "it ends before the head starts at 20:00"
        world.wait("2026-12-03T17:00")
        assert world.end("runs") == []
        world.wait("2026-12-03T17:45")
        assert world.end("short") == []
        assert world.why("head").reason is Reason.RESERVED_FOR
        assert world.wait("2026-12-03T20:00") == [("head", T2)]

    def test_nobody_passes_the_promise(self) -> None:
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve(scope=VISION)
        assert world.ask("runs", 3, 1, "speech") == ["runs"]
        assert world.ask("head", 4, 1.5) == []
        assert world.ask("late", 1, 4 + 1 / HOUR, "speech") == []
        assert world.why("late").reason is Reason.WOULD_DELAY_HEAD
        promise = world.engine.backfill.promise_of_unit("ns/head", world.second)
        assert promise is not None
        assert (promise.at, promise.fits_at) == (T2, at("2026-12-03T17:00"))
        assert world.ask("just", 1, 4, "speech") == ["just"]

    def test_a_head_that_can_start_before_the_window_is_promised_that(self) -> None:
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve(scope=VISION)
        world.ask("runs", 3, 1, "speech")
        world.ask("head", 4, declared(3000))
        assert world.ask("late", 1, 1 + 1 / HOUR, "speech") == []
        promise = world.engine.backfill.promise_of_unit("ns/head", world.second)
        assert promise is not None
        assert promise.at == at("2026-12-03T17:00")

    def test_a_promise_may_pass_a_window_by_time_alone(self) -> None:
        """It waits for a unit that does not run yet, and so ends later with every second."""
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve(scope=VISION)
        unit = declaring(build_unit("starts", "speech", queue="q", cpu=3), HOUR)
        world.workers.wake(world.engine.on_queue_unit(unit))
        (decision,) = world.workers.run()
        assert isinstance(decision, Dequeue)
        written = admitted(unit, world.version() + 9, grants=decision.grants)
        world.workers.wake(world.engine.on_written(decision, written))
        world.ask("head", 4, declared(2400))
        assert world.ask("late", 1, 1 + 1 / HOUR, "speech") == []
        assert world.why("late").reason is Reason.WOULD_DELAY_HEAD
        # Until then the head may start at 17:10, 40 minutes and the margin before the window.
        assert world.wait("2026-12-03T17:00") == [("late", at("2026-12-03T16:10:01"))]

    def test_a_head_that_no_gap_is_long_enough_for_holds_nobody_back(self) -> None:
        world = ReservedWorld(cpu=4, policy="FIFO")
        world.backfill()
        world.reserve(scope=VISION, rrule="FREQ=WEEKLY")
        world.ask("runs", 3, 1, "speech")
        world.ask("head", 4, 200)
        assert world.ask("passes", 1, 1000, "speech") == ["passes"]


class TestNever:
    def test_never_starts(self) -> None:
        world = ReservedWorld()
        world.reserve(rrule="FREQ=WEEKLY")
        most = 7 * 24 * HOUR - 7200 - 600
        assert world.ask("never", 1, declared(most + 1)) == []
        assert world.window("never").longest_gap == most
        assert world.ask("later", 1, declared(most)) == []
        assert world.window("later").longest_gap is None
        assert world.wait("2026-12-03T20:00") == [("later", T2)]
        assert world.wait("2026-12-11T00:00") == []

    def test_a_window_that_is_not_repeated_ends(self) -> None:
        world = ReservedWorld()
        world.reserve()
        world.ask("later", 1, 1000)
        assert world.window("later").longest_gap is None

    def test_two_reservations_leave_less_between_them(self) -> None:
        world = ReservedWorld()
        world.reserve(rrule="FREQ=WEEKLY", margin="0")
        world.reserve("second", "2026-12-06T18:00", rrule="FREQ=WEEKLY", margin="0")
        world.ask("never", 1, 94 + 1 / HOUR)
        assert world.window("never").longest_gap == 94 * HOUR
        world.ask("later", 1, 94)
        assert world.window("later").longest_gap is None

    @pytest.mark.parametrize(
        ("undeclared", "gap"), [("200h", True), ("24h", False), ("Wait", True)]
    )
    def test_what_declares_nothing(self, undeclared: str, *, gap: bool) -> None:
        world = ReservedWorld()
        world.reserve(rrule="FREQ=WEEKLY", undeclared=undeclared)
        world.ask("silent", 1, None)
        assert (world.window("silent").longest_gap is not None) is gap


class TestEdits:
    def test_an_edit_that_cannot_be_read_leaves_the_last_windows_in_force(self) -> None:
        world = ReservedWorld()
        world.reserve()
        assert world.reserve(duration="-2h") == []
        assert world.ask("long", 1, 2) == []
        stated = world.engine.reservations.find("upgrade")
        assert stated is not None
        assert stated.problem.startswith("duration: ")
        assert stated.spec == build_spec()
        (notice,) = world.engine.take_notices()
        assert (notice.kind, notice.reason) == ("QueueReservation", "UnreadableReservation")
        assert notice.note == stated.problem
        assert world.reserve(duration="1s") == []
        assert world.engine.take_notices() == []
        assert world.window("long").end == T1 + 1
        assert world.wait("2026-12-03T19:00") == [("long", T1 + 1)]

    def test_so_it_is_over_a_restart(self) -> None:
        world = ReservedWorld()
        bad = build_spec(rrule="FREQ=HOURLY")
        world.tell(build_reservation(spec=bad, in_force=(build_spec(),)))
        assert world.ask("long", 1, 2) == []

    def test_the_windows_of_the_last_valid_spec_are_renewed(self) -> None:
        world = ReservedWorld()
        world.reserve(rrule="FREQ=DAILY;COUNT=70")
        world.reserve(start="never")
        stated = world.engine.reservations.find("upgrade")
        assert stated is not None
        later = expand_all(keys_of(stated), world.second + 60 * 86400)
        world.workers.wake(world.engine.on_schedules(later))
        stated = world.engine.reservations.find("upgrade")
        assert stated is not None
        assert stated.rule is not None
        assert len(stated.rule.windows) == 10

    def test_another_reservation_of_that_name_has_nothing_of_the_one_before(self) -> None:
        world = ReservedWorld()
        world.reserve()
        world.tell(build_reservation(spec=build_spec(start="never"), uid="another"))
        assert world.ask("long", 1, 2) == ["long"]

    def test_one_in_another_namespace_does_not_count(self) -> None:
        world = ReservedWorld()
        world.tell(build_reservation(namespace="team"))
        assert world.ask("long", 1, 2) == ["long"]
        assert world.engine.reservations.find("upgrade") is None

    def test_renewed_schedules_wake_nobody(self) -> None:
        world = ReservedWorld("2026-12-03T21:00")
        world.reserve(rrule="FREQ=WEEKLY")
        world.ask("never", 1, 200)
        decided = len(world.workers.decided)
        stated = world.engine.reservations.find("upgrade")
        assert stated is not None
        world.workers.wall = world.second + 8 * 86400
        world.workers.wake(world.engine.on_schedules(expand_all(keys_of(stated), world.second)))
        assert world.rest() == []
        assert len(world.workers.decided) == decided


class TestClasses:
    def test_classes_have_the_declared_time_only_where_a_window_concerns_them(self) -> None:
        world = ReservedWorld(cpu=0)
        for number in range(3):
            world.ask(f"v{number}", 1, number)
            world.ask(f"s{number}", 1, number, "speech")
        (queue,) = world.engine.queues
        assert len(queue.pending.numbered) == 2
        world.reserve(scope=VISION)
        assert len(queue.pending.numbered) == 4
        world.unreserve()
        assert len(queue.pending.numbered) == 2

    def test_forks_are_independent(self) -> None:
        world = ReservedWorld()
        world.reserve()
        world.ask("long", 1, 2)
        twin = world.engine.fork()
        assert twin.on_reservation_gone("upgrade") == ("q",)
        assert world.ask("longer", 1, 3) == []
        wall = datetime.fromtimestamp(world.second, UTC)
        started = twin.decide_next("q", world.workers.now, wall)
        assert getattr(started, "unit", None) == "ns/long"


@pytest.mark.parametrize("seed", range(3))
def test_nothing_runs_in_a_window(seed: int) -> None:
    """What declares its time truly has ended by then, whatever the windows are."""
    rng = random.Random(seed)
    world = ReservedWorld(
        "2026-12-01T00:00", cpu=6, policy=rng.choice(["Priority", "Block", "FIFO"])
    )
    if rng.random() < 0.5:
        world.backfill()
    world.reserve("weekly", rrule="FREQ=WEEKLY;BYDAY=TH,MO")
    world.reserve("daily", "2026-12-01T03:00", rrule="FREQ=DAILY", scope=VISION, margin="1m")
    ends: dict[str, tuple[int, str]] = {}
    begin, starts, says = world.second, dict[str, int](), dict[str, tuple[int, str]]()
    for hour in range(24 * 8):
        world.wait(datetime.fromtimestamp(begin + hour * HOUR, UTC).isoformat()[:19])
        for name in [n for n, (end, _) in ends.items() if end <= world.second]:
            quota = ends.pop(name)[1]
            for start, end in _open(world, quota):
                assert not start < says[name][0] + starts[name], name
                assert end > starts[name]
            world.end(name)
        if rng.random() < 0.4:
            name, quota = f"u{hour}", rng.choice(["vision", "speech"])
            hours = rng.randint(1, 30)
            says[name] = hours * HOUR, quota
            world.ask(name, rng.randint(1, 4), hours, quota)
        for record in world.engine.units:
            name = record.key.partition("/")[2]
            if record.occupies and name not in starts:
                starts[name] = world.second
                length, quota = says[name]
                assert all(
                    not (start < world.second + length and world.second < end)
                    for start, end in _open(world, quota)
                ), f"{name} runs into a window"
                ends[name] = (world.second + length, quota)
    assert starts, "nothing started at all"


def _open(world: ReservedWorld, quota: str) -> list[tuple[int, int]]:
    return [
        (window.start, window.end)
        for rule in world.engine.usage.windows.rules
        for window in rule.windows
        if window.end > world.second and (rule.quotas is None or quota in rule.quotas)
    ]
