"""What is kept of the accounts survives ends of processes, changes of leaders, and edits."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from hashlib import sha256
from zlib import compress

import pytest

from queue_scheduler.account_store import account_keeper
from queue_scheduler.account_store.account_keeper import MOST_TRIES
from queue_scheduler.tenants.shards import MAX_TEXT
from shared_api.client.errors import ApiFailure
from shared_api.fake_api_server.faults import Match
from tests.queue_scheduler.account_store.keeper_world import KeeperWorld, KilledError, Process

CONFIG_MAPS = Match(plural="configmaps")
WRITES = Match(plural="configmaps", when=lambda request: request.is_write)


@pytest.fixture
def world() -> KeeperWorld:
    return KeeperWorld()


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put one account into each shard."""
    monkeypatch.setattr(account_keeper, "MAX_IN_SHARD", 1)


def play(world: KeeperWorld, process: Process, seconds: int = 400) -> None:
    """Let units start and end, and keep their use each minute, until the process is killed."""
    try:
        for minute in range(seconds // 60):
            for number in range(3):
                world.run(f"u{minute}-{number}", ("ann", "bob", "eve")[number])
            world.pass_time(50, process.keeper.save)
            world.end(f"u{minute}-0")
            if minute % 2:
                world.end(f"u{minute - 1}-1")
            world.pass_time(10, process.keeper.save)
    except KilledError:
        pass


def test_a_restart_goes_on_where_the_last_process_ended(world: KeeperWorld) -> None:
    first = world.lead()
    world.run("u", "ann")
    world.pass_time(90)
    first.keeper.save()
    second = world.lead()
    world.pass_time(30)
    assert second.used() == {"ann": 120_000}
    assert second.ledger.complete_from == first.ledger.complete_from
    assert second.reasons == []


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(16))
@pytest.mark.parametrize("is_warm", [False, True], ids=["new process", "standby"])
def test_kill_9(world: KeeperWorld, writes: int, *, is_after: bool, is_warm: bool) -> None:
    """At every write, with or without effect; the next leader is a new process or a standby."""
    first = world.lead()
    standby = world.start()
    first.keeper.save()
    first.config_maps.left, first.config_maps.is_after = writes, is_after
    play(world, first)
    most = world.truth - (world.history[-61] if len(world.history) > 60 else Counter())
    world.pass_time(7)  # until another leads
    second = standby if is_warm else world.start()
    second.keeper.tell()
    for _ in range(2):
        used = second.used()
        for user, want in world.truth.items():
            lost = want - used.get(user, 0)
            assert 0 <= lost <= most[user], f"{user}: {lost} of {want} is lost"
        world.pass_time(61)
        second.keeper.save()
    third = world.lead()
    assert third.used() == second.used()


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(18))
@pytest.mark.parametrize("is_warm", [False, True], ids=["new process", "standby"])
def test_kill_9_with_budgets(
    world: KeeperWorld, writes: int, *, is_after: bool, is_warm: bool
) -> None:
    """The same of what budgets have spent. Days have three minutes: some end between two writes."""
    world.state_budgets(180)
    first = world.lead()
    standby = world.start()
    first.keeper.save()
    first.config_maps.left, first.config_maps.is_after = writes, is_after
    play(world, first)
    most = sum((world.truth - world.history[-61]).values()) if len(world.history) > 60 else 0
    most = most or sum(world.truth.values())
    world.pass_time(7)
    second = standby if is_warm else world.start()
    second.keeper.tell()
    for _ in range(2):
        spent = second.spent()
        for period, want in world.spent().items():
            lost = want - spent[period]
            assert 0 <= lost <= most, f"{period}: {lost} of {want} is lost"
        world.pass_time(61)
        second.keeper.save()
    third = world.lead()
    assert third.spent() == second.spent()


@pytest.mark.usefixtures("small_shards")
def test_a_leader_that_was_deposed_writes_no_more(world: KeeperWorld) -> None:
    first = world.lead()
    play(world, first, 120)
    first.leads = False
    kept = world.texts()
    world.pass_time(100, first.keeper.save)
    assert world.texts() == kept


def test_two_leaders_never_add_up(world: KeeperWorld) -> None:
    """The first one does not know yet that it leads no more, and its write comes last."""
    first = world.lead()
    world.run("u", "ann")
    world.pass_time(60, first.keeper.save)
    second = world.lead()
    world.pass_time(60)
    second.keeper.save()
    first.keeper.save()
    second.keeper.save()
    assert first.used() == second.used() == world.lead().used() == {"ann": 120_000}


def test_only_what_has_changed_is_written(
    world: KeeperWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_keeper, "MAX_IN_SHARD", 1)
    process = world.lead()
    for user in ("ann", "bob"):
        world.run(user, user)
    world.pass_time(10)
    world.end("ann")
    process.keeper.save()
    before = world.config_maps()
    world.pass_time(60)
    process.keeper.save()
    versions = {
        name: each["metadata"]["resourceVersion"] != before[name]["metadata"]["resourceVersion"]
        for name, each in world.config_maps().items()
    }
    assert versions == {"koord-queue-accounts-0": False, "koord-queue-accounts-1": True}


def test_at_rest_nothing_is_written(world: KeeperWorld) -> None:
    process = world.lead()
    process.keeper.save()
    before = world.config_maps()
    world.pass_time(180, process.keeper.save)
    assert world.config_maps() == before


def test_nothing_is_kept_before_the_engine_was_told(world: KeeperWorld) -> None:
    process = world.start()
    process.keeper.save()
    assert world.config_maps() == {}


# --- damage --------------------------------------------------------------------------------------


def test_without_config_maps_accounts_are_rebuilt_from_units(world: KeeperWorld) -> None:
    world.lead()
    world.run("u", "ann")
    world.pass_time(1000)
    second = world.lead()
    assert second.used() == {"ann": 1_000_000}
    assert second.reasons == ["AccountsRebuilt"]
    assert second.ledger.complete_from == second.ledger.second


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("number", [0, 1])
def test_a_deleted_shard_is_noticed(world: KeeperWorld, number: int) -> None:
    first = world.lead()
    for user in ("ann", "bob"):
        world.run(user, user)
    world.pass_time(100)
    first.keeper.save()
    world.delete(f"koord-queue-accounts-{number}")
    second = world.lead()
    assert second.used() == {"ann": 100_000, "bob": 100_000}
    assert second.reasons == ["AccountsRebuilt"]
    assert f"koord-queue-accounts-{number} is gone" in second.notices[0].note
    second.keeper.save()
    assert world.lead().reasons == []


NONSENSE = {
    "no base64": "%%%",
    "nothing": "",
    "no zlib": b64encode(b"hello").decode(),
    "no JSON": b64encode(compress(b"{")).decode(),
    "another type": b64encode(compress(b"[1,2]")).decode(),
    "deep": b64encode(compress(b"[" * 100_000)).decode(),
    "long": "A" * (MAX_TEXT + 4),
    "a bomb": b64encode(compress(b"0" * 100_000_000, 9)).decode(),
    "a huge number": b64encode(
        compress(b'{"format":1,"count":1,"settledAt":%s,"completeFrom":0}' % (b"9" * 10_000))
    ).decode(),
}


@pytest.mark.parametrize("text", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_in_a_shard_stops_nothing(world: KeeperWorld, text: str) -> None:
    first = world.lead()
    world.run("u", "ann")
    world.pass_time(100)
    first.keeper.save()
    world.edit("koord-queue-accounts-0", {"accounts": text})
    second = world.lead()
    assert second.used() == {"ann": 100_000}
    assert second.reasons == ["AccountsRebuilt"]
    assert "koord-queue-accounts-0" in second.notices[0].note
    second.keeper.save()
    third = world.lead()
    assert (third.used(), third.reasons) == ({"ann": 100_000}, [])


def test_an_edit_while_a_leader_writes_is_written_over(world: KeeperWorld) -> None:
    first = world.lead()
    world.run("u", "ann")
    first.keeper.save()
    world.edit("koord-queue-accounts-0", {"accounts": "x"})
    world.pass_time(60, first.keeper.save)
    assert first.reasons == ["AccountsRebuilt"], "only the one at its start"
    assert world.lead().used() == {"ann": 60_000}


@pytest.mark.parametrize("status", [403, 409, 422, 500])
def test_writes_that_fail_are_reported_once_and_tried_again(
    world: KeeperWorld, status: int
) -> None:
    process = world.lead()
    process.notices.clear()
    world.run("u", "ann")
    world.server.faults.fail(status, times=1000, match=WRITES)
    world.pass_time(180, process.keeper.save)
    assert process.reasons == ["AccountsNotKept"]
    assert world.config_maps() == {}
    world.server.faults.clear()
    world.pass_time(60, process.keeper.save)
    assert world.lead().used() == {"ann": 240_000}


def test_a_write_without_an_answer_counts_once(world: KeeperWorld) -> None:
    process = world.lead()
    world.run("u", "ann")
    world.server.faults.lose_answer(match=WRITES)
    world.pass_time(120, process.keeper.save)
    assert world.lead().used() == {"ann": 120_000}


def test_a_start_without_the_right_to_read_goes_on(world: KeeperWorld) -> None:
    world.run("u", "ann")
    world.pass_time(10)
    world.server.faults.fail(403, times=1000, match=CONFIG_MAPS)
    process = world.lead()
    assert (process.used(), process.reasons) == ({"ann": 10_000}, ["AccountsRebuilt"])


@pytest.mark.parametrize("is_lost", [False, True], ids=["an error", "no answer"])
def test_a_start_waits_for_a_server_that_does_not_answer_but_not_for_ever(
    world: KeeperWorld, *, is_lost: bool
) -> None:
    process, faults = world.start(), world.server.faults
    if is_lost:
        faults.lose_answer(times=1000, match=CONFIG_MAPS)
    else:
        faults.fail(500, times=1000, match=CONFIG_MAPS)
    for _ in range(MOST_TRIES - 1):
        with pytest.raises(ApiFailure):
            process.keeper.tell()
    process.keeper.tell()
    assert process.reasons == ["AccountsRebuilt"]


# --- size ----------------------------------------------------------------------------------------


def test_a_shard_that_is_too_large_is_split(
    world: KeeperWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_keeper, "MAX_TEXT", 600)
    process = world.lead()
    for number in range(40):
        world.run(f"u{number}", sha256(str(number).encode()).hexdigest())
    world.pass_time(60, process.keeper.save)
    texts = world.texts()
    assert len(texts) > 3
    assert max(map(len, texts.values())) <= 600
    used = process.used()
    second = world.lead()
    assert (second.used(), second.reasons) == (used, [])
    world.pass_time(60, second.keeper.save)
    assert world.lead().used() == dict.fromkeys(used, 120_000)


def test_accounts_that_do_not_fit_are_reported(
    world: KeeperWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(account_keeper, "MAX_IN_SHARD", 1)
    monkeypatch.setattr(account_keeper, "MAX_SHARDS", 2)
    process = world.lead()
    process.notices.clear()
    for user in ("ann", "bob", "eve"):
        world.run(user, user)
    world.pass_time(60, process.keeper.save)
    assert process.reasons == ["AccountsNotKept"]


# --- periods -------------------------------------------------------------------------------------


def test_the_use_of_a_period_survives_a_restart() -> None:
    world = KeeperWorld(period="Day")  # it is 10:00 UTC
    first = world.lead()
    world.run("u", "ann")
    world.pass_time(14 * 3600 + 100, first.keeper.save)
    second = world.lead()
    world.pass_time(20)
    assert second.used() == {"ann": (14 * 3600 + 120) * 1000}
    ((_, line),) = second.ledger
    midnight = second.ledger.kept_edges()[-1]
    assert second.ledger.second - midnight == 120
    assert line.used_at_edge(midnight) == {"cpu": 14 * 3600 * 1000}
