"""Use in queues with the policy Fair: what it counts, what is kept of it, and what bounds it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.charge_times import date_charges
from queue_scheduler.queueing.fair_settings import DEFAULT_FAIR, read_fair_share
from queue_scheduler.tenants import fair_use
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.fair_use import NO_WEIGHT, QueueUse, StoredUses
from queue_scheduler.tenants.ledger import StoredAccounts
from shared_api.objects.meta import Timestamp, Uid
from shared_api.objects.queue import FairShare, FairWeight
from shared_api.well_known_labels import QUOTA_NAME, USER
from tests.fair_team import HOUR, FairTeam
from tests.properties.engine_kit import WALL, admitted, build_quota, build_unit, changed

ANN, BOB, EVE = ("ann",), ("bob",), ("eve",)


def accounts_of(team: FairTeam) -> QueueUse:
    found = team.engine.usage.fair.of_queue("q")
    assert found is not None
    return found


def test_use_survives_a_restart() -> None:
    team = FairTeam(FairShare(half_life="10h"), cpu=4)
    team.use("ann", 4, HOUR)
    running = team.ask("bob", 2)
    assert team.rest() == [running]
    record = team.engine.record(f"ns/{running}")
    assert record is not None
    at = Timestamp(team.wall_after(0).strftime("%Y-%m-%dT%H:%M:%SZ"))
    team.put(changed(record.unit, team.version(), last_allocate_time=at))
    team.pass_time(HOUR)
    fair, now = team.engine.usage.fair, WALL + team.second
    stored = StoredUses(now, fair.stored(now))
    want = {path: accounts_of(team).use_of(path, now) for path in (ANN, BOB)}
    fair.restart(date_charges(team.engine.units, now), stored)
    got = {path: accounts_of(team).use_of(path, now) for path in (ANN, BOB)}
    assert got == want
    team.engine.validate()
    team.pass_time(HOUR)
    assert accounts_of(team).rank_of(BOB, now) < accounts_of(team).rank_of(BOB, now + HOUR)


def test_a_queue_that_becomes_known_later_has_what_was_kept() -> None:
    team = FairTeam(FairShare(half_life="10h"), cpu=4)
    team.use("ann", 4, HOUR)
    now = WALL + team.second
    uses = StoredUses(now, team.engine.usage.fair.stored(now))
    other = FairTeam(cpu=4, policy="FIFO")
    other.pass_time(team.second)
    other.engine.usage.fair.advance(now)
    other.engine.usage.fair.restart((), uses)
    other.put_queue("Fair", FairShare(half_life="20h"))
    kept = accounts_of(other).use_of(ANN, now).decayed(now, 20 * HOUR)
    want = accounts_of(team).use_of(ANN, now).decayed(now, 10 * HOUR)
    assert abs(kept / want - 1) < 1e-9


def test_a_new_leader_is_told_it_with_the_accounts() -> None:
    assert StoredAccounts().uses == StoredUses()


def test_idle_accounts_are_forgotten() -> None:
    team = FairTeam(FairShare(half_life="1h"), cpu=4)
    team.use("ann", 4, HOUR)
    team.pass_time(9 * HOUR)
    assert ANN in list(accounts_of(team).uses)
    team.pass_time(3 * HOUR)
    assert list(accounts_of(team).uses) == []


def test_users_beyond_the_bound_count_for_their_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_use, "MAX_ACCOUNTS", 2)
    team = FairTeam(cpu=9)
    for user in ("ann", "bob", "eve", "zoe"):
        team.ask(user)
    assert team.rest() == ["ann1", "bob2", "eve3", "zoe4"]
    accounts = accounts_of(team)
    assert list(accounts.uses) == [ANN, BOB, ("namespace:ns",)]
    assert accounts.folds == 2
    now = WALL + team.second
    assert accounts.rank_of(ANN, now) < accounts.rank_of(EVE, now) < NO_WEIGHT
    team.engine.validate()


def test_what_runs_when_its_quota_becomes_known_counts_by_that() -> None:
    """A process may see units and queues before the quotas."""
    team = FairTeam(FairShare(half_life="10h", minimum_charge="0s"), cpu=4)
    team.workers.wake(team.engine.on_quota_gone(build_quota("vision", cpu=4, parent="top")))
    for user, quota in (("ann", "vision"), ("bob", "speech")):
        unit = build_unit(user, quota, queue="q", labels={USER: user}, cpu=2)
        team.put(admitted(unit, team.version()))
    team.workers.wake(team.engine.on_quota(build_quota("vision", cpu=4, parent="top")))
    team.pass_time(HOUR)
    now = WALL + team.second
    assert accounts_of(team).use_of(ANN, now) == accounts_of(team).use_of(BOB, now)


def test_a_unit_that_moves_to_another_quota_of_its_queue_does_not_start_anew() -> None:
    team = FairTeam(FairShare(half_life="10h"), cpu=4)
    running = team.ask("ann", 2, "vision")
    assert team.rest() == [running]
    team.pass_time(HOUR)
    now = WALL + team.second
    before = accounts_of(team).use_of(ANN, now)
    record = team.engine.record(f"ns/{running}")
    assert record is not None
    moved = changed(record.unit, team.version())
    labels = {**moved.metadata.labels, QUOTA_NAME: "speech"}
    team.put(replace(moved, metadata=replace(moved.metadata, labels=labels)))
    assert accounts_of(team).use_of(ANN, now) == before
    team.engine.validate()


@pytest.mark.parametrize("half_life", ["1s", "87600h"])
def test_extreme_half_lives(half_life: str) -> None:
    team = FairTeam(FairShare(half_life=half_life), cpu=1000)
    team.use("ann", 1, 1)
    team.use("bob", 1000, HOUR)
    blocker = team.ask("eve", 1000)
    assert team.rest() == [blocker]
    ann, bob = team.ask("ann"), team.ask("bob")
    assert team.order() == [ann, bob]
    team.pass_time(9 * 365 * 24 * HOUR)
    team.end(blocker)
    assert team.rest() == [ann, bob]


@pytest.mark.parametrize(
    ("weights", "want"),
    [
        pytest.param((), [1.64, 0.36], id="equal"),
        pytest.param((FairWeight(users=("ann",), weight=3),), [1.09, 0.73], id="by weight"),
    ],
)
def test_share_used(weights: tuple[FairWeight, ...], want: list[float]) -> None:
    settings, _ = read_fair_share(FairShare(weights=weights, minimum_charge="0s"), DEFAULT_FAIR)
    accounts = QueueUse(settings)
    for user, rate in ((ANN, 90), (BOB, 20)):
        accounts.start(
            Uid(user[0]), Account("vision", "q", "ns", "", *user), rate, WALL, since=WALL
        )
    accounts.advance(WALL)
    got = [float(accounts.share_used(user, WALL + HOUR)) for user in (ANN, BOB)]
    assert [round(each, 2) for each in got] == want
    assert accounts.share_used(EVE, WALL + HOUR) == 0


def test_use_follows_each_change_of_what_is_charged() -> None:
    settings, _ = read_fair_share(FairShare(half_life="1h", minimum_charge="0s"), DEFAULT_FAIR)
    accounts = QueueUse(settings)
    runs = ((ANN, 9, 0), (BOB, 9, 0), (ANN, 2, 1), (EVE, 2, 1))
    for number, (user, rate, hour) in enumerate(runs):
        uid, since = Uid(f"u{number}"), WALL + hour * HOUR
        accounts.start(uid, Account("vision", "q", "ns", "", *user), rate, since, since=since)
    now = WALL + 2 * HOUR
    ann, bob, eve = (accounts.use_of(user, now).decayed(now, HOUR) for user in (ANN, BOB, EVE))
    assert abs(ann / (bob + eve) - 1) < 1e-9


def test_a_thousandth_of_a_device_counts() -> None:
    accounts = QueueUse(DEFAULT_FAIR)
    account = Account("vision", "q", "ns", "", "ann")
    accounts.start(Uid("ann"), account, fair_use.SCALE // 10**8, WALL, since=WALL)
    assert accounts.rank_of(ANN, WALL) > accounts.rank_of(BOB, WALL)
