"""What was kept of accounts is taken in slices, as if all had been done at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.record.checkpoint import freeze, thaw
from queue_insight.record.digest import digest
from queue_scheduler.cycles.engine_call import EngineCall, play
from queue_scheduler.engine import account_restore
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.fair_use import StoredUse, StoredUses
from queue_scheduler.tenants.ledger import Ledger, StoredAccount, StoredAccounts
from queue_scheduler.tenants.periods import find_calendars
from queue_scheduler.tenants.scaled_use import scale
from shared_api.objects.quota_policy import Budget
from shared_api.timestamps import rfc3339
from tests.fair_team import FairTeam
from tests.properties.engine_kit import (
    WALL,
    admitted,
    build_policy,
    build_queue,
    build_quota,
    build_unit,
    changed,
    wall_time,
)

HALF_LIFE = 168 * 3600
USERS = ("ann", "bob", "eve")
BUDGETS = (Budget(resource="cpu", hours=1000, period="Month"),)
RUNNING = 30
NOW = 1000


def leader() -> FairTeam:
    """Return a team with accounts, a budget and turns by use, as it is before it leads."""
    team = FairTeam(cpu=1000)
    engine = team.engine
    engine.usage.ledger = Ledger()
    engine.queue_state.take_turns_by_use(HALF_LIFE)
    policy = build_policy("p", ["top"])
    engine.on_calendars(find_calendars(BUDGETS, WALL))
    engine.on_time(wall_time(WALL + 1))
    engine.on_quota_policy(replace(policy, spec=replace(policy.spec, budgets=BUDGETS)))
    for number in range(RUNNING):
        team.ask(USERS[number % 3], 1 + number % 4, ("vision", "speech")[number % 2])
        unit = engine.units.records[f"ns/{USERS[number % 3]}{team.count}"].unit
        since = rfc3339(wall_time(WALL + (number * 37) % NOW))
        running = admitted(unit, team.version())
        status = replace(running.status, last_allocate_time=since)
        team.put(replace(running, status=status))
    for user in USERS:
        team.ask(user, 2000)
    team.pass_time(NOW)
    return team


def kept() -> StoredAccounts:
    """Return what a leader before has kept, of accounts that are charged, idle, or lost."""
    use = scale(10**6, WALL, WALL + 50, HALF_LIFE)
    accounts = [
        StoredAccount(Account("vision", "q", "ns", "", user), {"cpu": 10**6 * n}, changed=WALL + n)
        for n, user in enumerate((*USERS[:2], *(f"user-{n}" for n in range(40))), start=1)
    ]
    uses = [
        StoredUse("q", ("user",), HALF_LIFE, (user,), str(use.mantissa), use.exponent)
        for user in USERS
    ]
    uses.append(StoredUse("", ("quota",), HALF_LIFE, ("top",), str(use.mantissa), use.exponent))
    of_queues = StoredUses(WALL + 500, tuple(uses))
    return StoredAccounts(WALL + 500, WALL, tuple(accounts), uses=of_queues)


def begun() -> FairTeam:
    """Return one that was told the accounts, and has done a part of the slices."""
    team = leader()
    team.workers.wake(team.engine.on_accounts(kept(), in_slices=True))
    go_on(team, 9)
    assert team.engine.account_restore.is_behind
    return team


def finished() -> FairTeam:
    team = leader()
    team.workers.wake(team.engine.on_accounts(kept()))
    assert not team.engine.account_restore.is_behind
    return team


@pytest.fixture(autouse=True, scope="module")
def short_slices() -> Iterator[None]:
    """Let a slice end within a part of what is restored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(account_restore, "STEPS", 7)
        yield


def go_on(team: FairTeam, slices: int = 1000) -> None:
    """Do so many slices, or those that are left."""
    for _ in range(slices):
        if team.engine.account_restore.is_behind:
            team.workers.wake(team.engine.go_on_with_accounts())


def counted(engine: Engine) -> str:
    """Return what is counted over time, as a text."""
    usage = engine.usage
    assert usage.ledger is not None
    assert usage.quota_use is not None
    parts = (usage.ledger, usage.budgets.accounts, usage.fair, usage.quota_use)
    return "\n".join(str(each.state()) for each in parts)


def end_one(team: FairTeam, number: int) -> None:
    """Let a running unit end, if it has not."""
    records = [each for each in team.engine.units.records.values() if each.unit.status.admissions]
    if records:
        unit = records[number % len(records)].unit
        team.put(changed(unit, team.version(), "Succeed", admissions=()))


def grow_older(team: FairTeam, number: int) -> None:
    team.pass_time(number)


def ask_more(team: FairTeam, number: int) -> None:
    """Let a unit arrive that another leader has started."""
    unit = build_unit(f"new{team.version()}", "vision", queue="q", cpu=1 + number % 3)
    team.put(admitted(unit, team.version()))


CHANGES: Sequence[Callable[[FairTeam, int], None]] = (end_one, grow_older, ask_more)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.sampled_from(CHANGES), st.integers(0, 70)), max_size=5
    ),
    st.booleans(),
)
def test_what_changes_between_slices_counts_as_if_all_had_been_done_at_once(
    story: list[tuple[int, Callable[[FairTeam, int], None], int]], is_rebuilt: bool
) -> None:
    sliced, whole = leader(), leader()
    stored = replace(kept(), is_rebuilt=is_rebuilt)
    sliced.engine.on_accounts(stored, in_slices=True)
    whole.engine.on_accounts(stored)
    for slices, change, number in story:
        go_on(sliced, slices)
        for team in (sliced, whole):
            change(team, number)
            team.engine.validate()
        assert counted(sliced.engine.fork()) == counted(whole.engine)
    go_on(sliced)
    assert counted(sliced.engine) == counted(whole.engine)
    for team in (sliced, whole):
        team.pass_time(60)  # then all are ordered anew
        team.engine.validate()
    assert counted(sliced.engine) == counted(whole.engine)
    assert sliced.order() == whole.order()


def test_a_copy_that_is_made_while_held_seconds_are_counted_begins_before_them() -> None:
    sliced, whole = begun(), finished()
    for team in (sliced, whole):
        team.pass_time(12)
        for number in range(10):
            end_one(team, number)
    while sliced.engine.account_restore.is_behind:
        assert counted(sliced.engine.fork()) == counted(whole.engine)
        go_on(sliced, 1)


def test_the_first_decision_does_what_is_left() -> None:
    team, whole = begun(), finished()
    assert team.rest() == whole.rest()
    assert not team.engine.account_restore.is_behind
    assert counted(team.engine) == counted(whole.engine)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda engine: engine.on_quota(build_quota("top", cpu=9)), id="quota"),
        pytest.param(lambda engine: engine.on_queue(build_queue("other")), id="queue"),
        pytest.param(lambda engine: engine.on_queue_gone("q"), id="queue gone"),
        pytest.param(lambda engine: engine.on_quota_policy(build_policy("p", ["top"])), id="rules"),
        pytest.param(lambda engine: engine.on_edges((WALL, WALL + 9)), id="edges"),
        pytest.param(lambda engine: engine.on_accounts(kept()), id="accounts"),
    ],
)
def test_what_they_are_counted_by_changes_after_them(change: Callable[[Engine], object]) -> None:
    team, whole = begun(), finished()
    for engine in (team.engine, whole.engine):
        change(engine)
    assert not team.engine.account_restore.is_behind
    assert counted(team.engine) == counted(whole.engine)


def test_a_copy_has_all_and_the_original_goes_on() -> None:
    team, whole = begun(), finished()
    twin = team.engine.fork()
    assert not twin.account_restore.is_behind
    assert counted(twin) == counted(whole.engine)
    assert team.engine.account_restore.is_behind
    go_on(team)
    assert counted(team.engine) == counted(whole.engine)


def test_recorded_slices_give_the_same() -> None:
    twins = [leader(), leader()]
    calls = [EngineCall(1, WALL, "on_accounts", (kept(),), {"in_slices": True})]
    calls += [EngineCall(2 + n, WALL, "go_on_with_accounts") for n in range(60)]
    for call in calls:
        states = []
        for team in twins:
            play(team.engine, call)
            states.append((team.engine.account_restore.is_behind, digest(team.engine.fork())))
        assert states[0] == states[1]
    assert [team.engine.account_restore.is_behind for team in twins] == [False, False]


def test_without_accounts_there_are_no_slices() -> None:
    engine = Engine(FairTeam().engine.plugins, ())
    assert engine.on_accounts(kept(), in_slices=True) == ()
    assert engine.go_on_with_accounts() == ()
    assert not engine.account_restore.is_behind


def test_a_checkpoint_between_slices_has_all() -> None:
    thawed = thaw(freeze(begun().engine.fork()))
    assert counted(thawed) == counted(finished().engine)
    thawed.validate()
