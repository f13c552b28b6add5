"""Tests of shared_api.leader_election: two candidates, one lease, virtual time."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from types import SimpleNamespace
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.client.errors import AlreadyExists, Conflict, ConnectionLost, NotFound
from shared_api.leader_election import (
    EXPIRY_JITTER_SECONDS,
    EXPIRY_SECONDS,
    LOOKS_PER_RETRY,
    SETTLE_SECONDS,
    LeaderElector,
    LeaseSettingError,
    LeaseSettings,
    LeaseVerdict,
    ObservedLease,
    SoleLeader,
    judge_lease,
    observe,
    rest_of_candidate,
)
from shared_api.objects.lease import Lease, LeaseSpec
from shared_api.objects.meta import ObjectMeta
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.well_known_labels import WRITES_END

SETTINGS = LeaseSettings()

R = TypeVar("R")


class FakeLease:
    """The only lease on the server; each candidate uses it through a `FakeLock`."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0

    def write(self, spec: LeaseSpec, resource_version: str, promise: str = "") -> Lease:
        if self.lease is None and resource_version:
            raise NotFound(404, "NotFound", "")
        if self.lease is not None and not resource_version:
            raise AlreadyExists(409, "AlreadyExists", "")
        if self.lease is not None and self.lease.metadata.resource_version != resource_version:
            raise Conflict(409, "Conflict", "")
        self.version += 1
        metadata = ObjectMeta(
            resource_version=str(self.version), annotations={WRITES_END: promise} if promise else {}
        )
        self.lease = Lease(metadata=metadata, spec=spec)
        return self.lease


class FakeLock:
    """One candidate's access to the lease, with faults."""

    def __init__(self, server: FakeLease, clock: VirtualClock) -> None:
        self.server = server
        self.clock = clock
        self.cut_off = False
        self.answers_lost = False
        self.seconds = 0.0  # duration of a request, half of it before it arrives
        self.on_way: dict[
            str, Callable[[], None]
        ] = {}  # called once, before or after the request arrives
        self.loses_next_write = False  # its answer

    def read(self) -> Lease | None:
        return self._call(lambda: self.server.lease)

    def write(self, spec: LeaseSpec, resource_version: str, promise: str) -> Lease:
        loses_answer, self.loses_next_write = self.loses_next_write, False
        self._happens("there")
        lease = self._call(lambda: self.server.write(spec, resource_version, promise))
        self._happens("back")
        if loses_answer:
            raise ConnectionLost("reset", sent=True)
        return lease

    def _happens(self, way: str) -> None:
        happens = self.on_way.pop(way, None)
        if happens is not None:
            happens()

    def _call(self, action: Callable[[], R]) -> R:
        if self.cut_off:
            raise ConnectionLost("no route", sent=False)
        self.clock.advance(self.seconds / 2)
        result = action()
        self.clock.advance(self.seconds / 2)
        if self.answers_lost:
            raise ConnectionLost("reset", sent=True)
        return result


class Candidate:
    """An elector, its lock, and the calls of its callbacks."""

    def __init__(self, name: str, server: FakeLease, clock: VirtualClock) -> None:
        self.lock = FakeLock(server, clock)
        self.started = 0
        self.stopped: list[str] = []
        self.elector = LeaderElector(
            self.lock,
            name,
            SETTINGS,
            clock=clock,
            rng=random.Random(name),
            on_started_leading=self._on_started,
            on_stopped_leading=self.stopped.append,
        )

    def _on_started(self) -> None:
        self.started += 1


class World:
    """Two candidates, each of which steps after its rest."""

    def __init__(self) -> None:
        self.clock = VirtualClock(start=100)
        self.server = FakeLease()
        self.a = Candidate("a", self.server, self.clock)
        self.b = Candidate("b", self.server, self.clock)
        self.due: dict[Candidate, float] = {self.a: 100.0}
        self.last_writes: dict[Candidate, float] = {}  # when the last one that may be sent is over

    def holder(self) -> str | None:
        """Return the holder in the lease on the server."""
        assert self.server.lease is not None
        return self.server.lease.spec.holder_identity

    def admit_b(self) -> None:
        self.due[self.b] = self.clock.monotonic()

    def run(self, seconds: float) -> None:
        """Let time pass, step candidates that are due, and check that there is one writer."""
        until = self.clock.monotonic() + seconds
        while self.due:
            who = min(self.due, key=lambda each: self.due[each])
            if self.due[who] > until:
                break
            self.clock.advance(max(self.due[who] - self.clock.monotonic(), 0))
            self.step(who)
        self.clock.advance(max(until - self.clock.monotonic(), 0))
        self.check()

    def step(self, who: Candidate) -> None:
        rest = who.elector.step()
        self.check()
        if rest is None:
            del self.due[who]
        else:
            # Never at the same instant again, so that an immediate retry cannot stop the clock.
            self.due[who] = self.clock.monotonic() + max(rest, 0.001)

    def release(self, who: Candidate) -> None:
        """End a candidate politely, when its writers have stopped."""
        self.due.pop(who, None)
        self.last_writes.pop(who, None)
        who.elector.release()

    def check(self) -> None:
        now = self.clock.monotonic()
        for who, other in ((self.a, self.b), (self.b, self.a)):
            if who.elector.writable_seconds():
                begins = self.last_writes.get(other, -inf) + SETTLE_SECONDS
                assert now >= begins, "the last write of the other may still be on its way"
                self.last_writes[who] = now + who.elector.writable_seconds()
        assert not (self.a.elector.is_leader() and self.b.elector.is_leader())


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_candidate_leads_and_keeps_leading(world: World) -> None:
    world.run(1)
    world.admit_b()
    world.run(120)
    assert (world.a.started, world.a.stopped, world.b.started) == (1, [], 0)
    assert world.a.elector.time_left() > SETTINGS.lease_seconds - SETTINGS.retry_seconds - 0.1
    assert (world.a.elector.holder(), world.b.elector.holder()) == ("a", "a")
    lease = world.server.lease
    assert lease is not None
    assert (lease.spec.lease_transitions, lease.spec.lease_duration_seconds) == (0, 15)


def test_a_new_leader_writes_only_after_the_last_possible_write_of_the_old_one(
    world: World,
) -> None:
    world.run(3.9)
    assert (world.a.elector.is_leader(), world.a.elector.writable_seconds()) == (True, 0)
    assert world.a.elector.settle_seconds_left() == pytest.approx(0.1)
    world.run(0.2)
    want = world.a.elector.time_left() - SETTINGS.quiet_seconds
    assert world.a.elector.writable_seconds() == pytest.approx(want)


def test_a_leader_sends_nothing_in_the_last_seconds_of_its_lease(world: World) -> None:
    world.run(10)
    world.a.lock.cut_off = True
    last = world.a.elector.time_left() - SETTINGS.quiet_seconds
    world.clock.advance(last - 0.1)
    assert world.a.elector.writable_seconds() == pytest.approx(0.1)
    world.clock.advance(0.2)
    assert (world.a.elector.is_leader(), world.a.elector.writable_seconds()) == (True, 0)


@pytest.mark.parametrize(
    ("edit", "want"),
    [
        pytest.param(lambda promise: promise, 0.0, id="promised: it begins at once"),
        pytest.param(lambda _: "", 4.0, id="an earlier version promised nothing"),
        pytest.param(lambda _: "4 somebody", 4.0, id="a promise of a holder before"),
        pytest.param(lambda _: "1.5 a", 2.5, id="a lease too short for all of it"),
        pytest.param(lambda _: "9 a", 0.0, id="more than it needs"),
        pytest.param(lambda _: "-9 a", 4.0, id="below zero"),
        pytest.param(lambda _: "nan a", 4.0, id="no number"),
        pytest.param(lambda _: "soon a", 4.0, id="a word"),
        pytest.param(lambda _: "4", 4.0, id="without a holder"),
    ],
)
def test_a_new_leader_waits_for_what_its_predecessor_has_not_promised(
    world: World, edit: Callable[[str], str], want: float
) -> None:
    world.run(10)
    world.admit_b()
    world.run(10)
    del world.due[world.a]
    del world.last_writes[world.a]  # what it would have sent is not the point here
    assert world.server.lease is not None
    metadata = world.server.lease.metadata
    given = {WRITES_END: edit(metadata.annotations[WRITES_END])}
    edited = msgspec.structs.replace(metadata, annotations=given)
    world.server.lease = msgspec.structs.replace(world.server.lease, metadata=edited)
    while not world.b.elector.is_leader():
        world.run(0.01)
    assert world.b.elector.settle_seconds_left() == pytest.approx(want, abs=0.02)


def test_a_candidate_acquires_a_lease_as_soon_as_it_has_expired(world: World) -> None:
    world.run(10)
    world.admit_b()
    world.run(60)
    del world.due[world.a]
    left = world.a.elector.time_left()
    world.run(left)
    assert not world.b.elector.is_leader()
    noticed = SETTINGS.retry_seconds / LOOKS_PER_RETRY
    world.run(noticed + EXPIRY_SECONDS + EXPIRY_JITTER_SECONDS)
    assert world.b.elector.is_leader()
    assert world.b.elector.writable_seconds() > 0
    assert world.b.elector.waited_seconds() == pytest.approx(SETTINGS.lease_seconds, abs=0.2)


def test_a_leader_that_is_cut_off_stops_before_the_other_starts(world: World) -> None:
    world.run(10)
    world.admit_b()
    world.run(10)
    world.a.lock.cut_off = True
    world.run(SETTINGS.renew_deadline_seconds + 2)
    assert world.a.stopped == ["not renewed within the renew deadline"]
    assert world.a.elector.writable_seconds() == 0
    assert world.a not in world.due, "a process that loses the lease ends"
    world.run(20)
    assert (world.b.started, world.b.elector.is_leader()) == (1, True)
    assert world.server.lease is not None
    assert world.server.lease.spec.lease_transitions == 1


def test_a_short_outage_does_not_cost_the_lease(world: World) -> None:
    world.run(10)
    world.admit_b()
    for lock in (world.a.lock, world.b.lock):
        lock.cut_off = True
    world.run(7)
    for lock in (world.a.lock, world.b.lock):
        lock.cut_off = False
    world.run(30)
    assert (world.a.elector.is_leader(), world.a.stopped, world.b.started) == (True, [], 0)


def test_a_renewal_counts_from_the_time_before_it_is_sent(world: World) -> None:
    world.a.lock.seconds = 2.0
    world.step(world.a)  # reads for 2 s, creates for 2 s
    assert world.a.elector.time_left() == SETTINGS.lease_seconds - 2.0
    world.clock.advance(1.0)
    world.a.lock.seconds = 4.0
    world.step(world.a)
    assert world.a.elector.time_left() == SETTINGS.lease_seconds - 4.0


def test_a_renewal_whose_outcome_is_unknown_extends_nothing(world: World) -> None:
    world.run(1)
    before = world.a.elector.time_left()
    world.a.lock.answers_lost = True
    world.run(5)
    assert world.server.version > 1, "it did arrive"
    assert world.a.elector.time_left() == pytest.approx(before - 5)
    world.a.lock.answers_lost = False
    world.run(5)
    assert world.a.elector.is_leader()
    assert world.a.elector.time_left() > 10


def test_a_lease_acquired_too_slowly_is_not_used(world: World) -> None:
    world.a.lock.seconds = SETTINGS.renew_deadline_seconds
    world.step(world.a)
    assert (world.a.started, world.a.elector.is_leader()) == (0, False)
    world.a.lock.seconds = 0
    world.step(world.a)
    assert world.a.started == 1


def test_a_leader_that_sees_another_holder_stops_at_once(world: World) -> None:
    world.run(1)
    world.server.write(LeaseSpec(holder_identity="thief"), str(world.server.version))
    world.run(2.1)
    assert world.a.stopped == ["taken by thief"]
    assert not world.a.elector.is_leader()


def test_a_manually_deleted_lease_is_created_again_by_its_leader(world: World) -> None:
    world.run(10)
    world.server.lease = None
    world.run(10)
    assert (world.a.elector.is_leader(), world.a.stopped, world.a.started) == (True, [], 1)
    assert world.server.lease is not None


def test_a_released_lease_is_acquired_at_the_next_retry(world: World) -> None:
    world.run(10)
    world.admit_b()
    world.run(1)
    world.release(world.a)
    assert world.a.elector.writable_seconds() == 0
    assert world.a.elector.step() is None
    world.run(SETTINGS.retry_seconds * 1.2)
    assert world.b.elector.writable_seconds() > 0
    assert world.a.stopped == [], "a release is not a loss"
    assert world.b.elector.waited_seconds() == 0.0


@pytest.mark.parametrize("lost", [False, True], ids=["answered", "answer lost"])
@pytest.mark.parametrize("way", ["there", "back"])
def test_a_lease_acquired_during_a_release_is_released_too(
    world: World, way: str, lost: bool
) -> None:
    world.a.lock.loses_next_write = lost
    world.a.lock.on_way[way] = world.a.elector.release
    assert world.a.elector.step() is None
    assert world.holder() == ""
    assert (world.a.started, world.a.elector.is_leader()) == (0, False)


@pytest.mark.parametrize("leads", [False, True])
def test_a_release_just_before_the_lead_starts_ends_it(
    world: World, monkeypatch: pytest.MonkeyPatch, leads: bool
) -> None:
    if leads:
        world.run(1)

    def release_first(**lead: float) -> SimpleNamespace:
        world.a.elector.release()
        return SimpleNamespace(**lead)

    monkeypatch.setattr("shared_api.leader_election._Lead", release_first)
    assert world.a.elector.step() is None
    assert (world.holder(), world.a.elector.is_leader()) == ("", False)


@pytest.mark.parametrize("leads", [False, True])
def test_a_lease_whose_write_got_no_answer_is_released(world: World, leads: bool) -> None:
    if leads:
        world.run(1)
    world.a.lock.loses_next_write = True
    world.a.elector.step()
    assert world.holder() == "a"
    world.a.elector.release()
    assert world.holder() == ""


def test_releasing_a_lease_that_is_not_held_or_not_reachable_is_harmless(world: World) -> None:
    world.b.elector.release()
    assert world.server.version == 0
    world.run(1)
    world.a.lock.cut_off = True
    world.a.elector.release()
    assert not world.a.elector.is_leader()


@pytest.mark.parametrize("jump", [86_400, -86_400])
def test_jumps_of_the_wall_clock_change_nothing(world: World, jump: float) -> None:
    world.run(5)
    world.admit_b()
    world.run(5)
    world.clock.jump_wall_clock(jump)
    world.run(60)
    assert (world.a.elector.is_leader(), world.a.stopped, world.b.started) == (True, [], 0)


@pytest.mark.properties
@given(st.lists(st.tuples(st.sampled_from("abx"), st.floats(0.1, 20), st.floats(0, 4)), max_size=8))
def test_whatever_the_network_does_there_is_at_most_one_writer(
    faults: list[tuple[str, float, float]],
) -> None:
    world = World()
    world.admit_b()
    for cut_off, seconds, latency in faults:
        for name, candidate in (("a", world.a), ("b", world.b)):
            candidate.lock.cut_off = name == cut_off
            candidate.lock.seconds = latency
        world.run(seconds)  # checks after every step


def observed(holder: str | None, since: float, seconds: int | None = 15) -> ObservedLease:
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=seconds)
    return ObservedLease(spec=spec, resource_version="1", since=since)


@pytest.mark.parametrize(
    ("lease", "want"),
    [
        pytest.param(None, LeaseVerdict.CREATE, id="no lease"),
        pytest.param(observed("me", 0), LeaseVerdict.RENEW, id="mine, however old"),
        pytest.param(observed("", 100), LeaseVerdict.ACQUIRE, id="released"),
        pytest.param(
            observed(None, 100), LeaseVerdict.ACQUIRE, id="created manually, without a holder"
        ),
        pytest.param(
            observed("you", 85.1), LeaseVerdict.WAIT, id="seen to change within its duration"
        ),
        pytest.param(observed("you", 85), LeaseVerdict.ACQUIRE, id="unchanged for its duration"),
        pytest.param(observed("you", 85, 60), LeaseVerdict.WAIT, id="its own duration is longer"),
        pytest.param(
            observed("you", 95, 5), LeaseVerdict.ACQUIRE, id="its own duration is shorter"
        ),
        pytest.param(
            observed("you", 85.1, None), LeaseVerdict.WAIT, id="no duration: the usual one"
        ),
    ],
)
def test_the_verdict_depends_on_local_observations(
    lease: ObservedLease | None, want: LeaseVerdict
) -> None:
    assert judge_lease(lease, "me", 100, 15) is want


def test_a_version_keeps_the_time_of_its_first_observation() -> None:
    lease = Lease(metadata=ObjectMeta(resource_version="7"), spec=LeaseSpec(holder_identity="you"))
    first = observe(None, lease, 10)
    assert observe(first, lease, 20).since == 10
    renewed = msgspec.structs.replace(lease, metadata=ObjectMeta(resource_version="8"))
    assert observe(first, renewed, 20).since == 20


@pytest.mark.parametrize(
    ("lease", "renew", "retry", "want"),
    [
        pytest.param(15, 10.0, 2.0, 4.0, id="the defaults"),
        pytest.param(60, 40.0, 10.0, 4.0, id="no more than a successor needs"),
        pytest.param(12, 8.0, 1.5, 2.5, id="what a slow renewal leaves"),
        pytest.param(6, 4.0, 0.5, 0.0, id="a short lease has nothing to spare"),
    ],
)
def test_the_quiet_seconds_leave_room_for_a_slow_renewal(
    lease: int, renew: float, retry: float, want: float
) -> None:
    settings = LeaseSettings(lease_seconds=lease, renew_deadline_seconds=renew, retry_seconds=retry)
    assert settings.quiet_seconds == want


@pytest.mark.parametrize(
    ("lease", "luck", "want"),
    [
        pytest.param(None, 0.0, 2.0, id="no lease: a retry period"),
        pytest.param(None, 1.0, 2.4, id="with a jitter"),
        pytest.param(observed("", 100), 0.0, 2.0, id="free"),
        pytest.param(observed("you", 100), 0.0, 1.8, id="just renewed: when the next one is due"),
        pytest.param(observed("you", 98.2), 0.0, 0.25, id="due: again soon"),
        pytest.param(observed("you", 97.1), 0.0, 0.25, id="a little late: again soon"),
        pytest.param(observed("you", 96.9), 0.0, 2.0, id="late: a retry period"),
        pytest.param(observed("you", 86), 0.0, 1.01, id="until it expires"),
        pytest.param(observed("you", 86), 1.0, 1.11, id="candidates a little apart"),
        pytest.param(observed("you", 99, 2), 0.0, 0.8, id="the holder's duration counts"),
        pytest.param(observed("you", 60), 0.0, 2.0, id="expired, and taken by another"),
    ],
)
def test_a_candidate_looks_when_something_is_due(
    lease: ObservedLease | None, luck: float, want: float
) -> None:
    assert rest_of_candidate(lease, SETTINGS, 100, luck) == pytest.approx(want)


@pytest.mark.parametrize(
    ("lease", "renew", "retry", "want"),
    [
        (10, 10, 2, r"lease duration \(10 s\) must be above the renew deadline \(10 s\)"),
        (15, 2.4, 2, r"renew deadline \(2.4 s\) must be above 1.2 times"),
        (15, 10, 0, "retry period must be above 0"),
        (4, 3, 0.5, r"lease duration \(4 s\) must be at least 4.5 s"),
    ],
)
def test_durations_that_cannot_work_are_refused(
    lease: int, renew: float, retry: float, want: str
) -> None:
    with pytest.raises(LeaseSettingError, match=want):
        LeaseSettings(lease_seconds=lease, renew_deadline_seconds=renew, retry_seconds=retry)


def test_without_election_the_process_leads_without_end() -> None:
    leader = SoleLeader("me")
    assert leader.is_leader()
    assert (leader.time_left(), leader.writable_seconds(), leader.holder()) == (inf, inf, "me")
