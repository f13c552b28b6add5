"""The feed: a copy first, then every call, and a new copy after each loss."""

from __future__ import annotations

import math

import pytest
from structlog.testing import capture_logs

from queue_insight.insight_feed import feed
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.digest import digest
from queue_scheduler.engine.engine import Engine
from shared_api.process.local_socket import OtherUserError
from shared_api.testing.object_builders import queue
from tests.queue_insight.insight_kit import Pair


def test_the_copy_has_what_came_before_and_calls_bring_the_rest(pair: Pair) -> None:
    pair.sender.add_unit("before")
    pair.run()
    pair.sender.add_unit("after")
    pair.sender.start_next()
    pair.run()
    assert pair.is_same()
    names = [call.name for call in pair.receiver.received.calls]
    assert names == ["on_queue_unit", "decide_next"]
    assert len(pair.receiver.received.checkpoints) == 1


def test_nothing_is_kept_or_sent_before_the_caches_are_filled(pair: Pair) -> None:
    pair.sender.is_ready = False
    pair.run()
    pair.sender.add_unit("a")
    assert len(pair.sender.calls) == 0
    assert not pair.receiver.received.hellos
    pair.sender.is_ready = True
    pair.run()
    assert pair.is_same()


def test_nothing_is_kept_while_nobody_listens(pair: Pair) -> None:
    pair.receiver.server.close()
    with capture_logs() as logs:
        rests = [pair.sender.feed.step() for _ in range(6)]
    pair.sender.add_unit("a")
    assert len(pair.sender.calls) == 0
    assert rests == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert [each["event"] for each in logs] == ["the insight program does not follow"]


def test_after_an_overrun_a_new_copy_is_sent(pair: Pair) -> None:
    pair.run()
    overrun(pair)
    assert len(pair.sender.calls) == 0, "nothing more is kept"
    pair.run()
    assert pair.is_same()
    assert len(pair.receiver.received.checkpoints) == 2
    assert len(pair.receiver.received.hellos) == 1
    assert pair.sender.metric("restarts_total", reason="overrun") == 1


def overrun(pair: Pair) -> None:
    for number in range(feed.BATCH * 600):
        pair.sender.shared.apply(Engine.on_queue, queue("team", priority=number))


def test_many_calls_go_in_batches_with_pauses(pair: Pair) -> None:
    pair.run()
    for number in range(feed.BATCH + 1):
        pair.sender.add_unit(f"unit-{number}")
    assert pair.sender.feed.step() == feed.PAUSE_SECONDS
    assert pair.sender.metric("lag_calls") == 1
    assert pair.sender.feed.step() == feed.REST_SECONDS
    pair.run()
    assert pair.is_same()
    assert pair.sender.metric("calls_total") == feed.BATCH + 1


def test_the_age_counts_from_when_all_was_sent(pair: Pair) -> None:
    assert math.isnan(pair.sender.metric("age_seconds"))
    pair.run()
    pair.sender.clock.advance(7.0)
    assert pair.sender.metric("age_seconds") == 7.0
    pair.run()
    assert pair.sender.metric("age_seconds") == 0.0
    assert pair.sender.metric("connected") == 1


def test_a_lost_connection_is_made_again_with_a_new_copy(pair: Pair) -> None:
    pair.run()
    pair.sender.feed.end()
    pair.sender.feed.step()
    pair.sender.add_unit("a")
    assert len(pair.sender.calls) == 0, "the next copy has it"
    pair.run()
    assert pair.is_same()
    assert len(pair.receiver.received.checkpoints) == 2
    assert pair.sender.metric("restarts_total", reason="lost") == 1


def digest_every(calls: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "CALLS_TO_FIRST_DIGEST", calls)
    monkeypatch.setattr(feed, "CALLS_PER_DIGEST", calls)


def test_digests_are_compared_after_so_many_calls(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest_every(3, monkeypatch)
    pair.run()
    for number in range(7):
        pair.sender.add_unit(f"unit-{number}")
        pair.run(2)
    assert pair.receiver.metric("digests_compared_total") == 2
    assert pair.receiver.metric("digest_mismatches_total") == 0


def test_a_digest_is_sent_after_exactly_the_calls_before_it(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine goes on while the digest of its copy is computed."""
    digest_every(1, monkeypatch)

    def digest_of(engine: Engine) -> str:
        pair.sender.add_unit(f"more-{pair.sender.calls.last}")
        return digest(engine)

    monkeypatch.setattr(feed, "digest", digest_of)
    pair.run()
    pair.sender.add_unit("a")
    pair.run(12)
    assert pair.receiver.metric("digests_compared_total") > 1
    assert pair.receiver.metric("digest_mismatches_total") == 0


def test_another_state_is_replaced_by_a_new_copy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest_every(2, monkeypatch)
    pair.run()
    pair.receiver.engine.apply(Engine.on_queue_gone, "team")
    pair.sender.add_unit("a")
    pair.sender.add_unit("b")
    pair.run()
    assert pair.receiver.metric("digest_mismatches_total") == 1
    assert pair.sender.metric("restarts_total", reason="digest") == 1
    assert pair.is_same()


def test_digests_take_a_small_share_of_the_time(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest_every(1, monkeypatch)
    made: list[str] = []

    def slow(_engine: Engine) -> str:
        pair.sender.clock.advance(1.0)
        made.append("")
        return "never compared"

    monkeypatch.setattr(feed, "digest", slow)
    pair.run()
    for number in range(5):
        pair.sender.add_unit(f"unit-{number}")
        pair.sender.feed.step()
    assert len(made) == 1
    pair.sender.clock.advance(1.0 / feed.DIGEST_SHARE)
    pair.sender.add_unit("late")
    pair.sender.feed.step()
    assert len(made) == 2


def test_an_engine_that_cannot_be_copied_is_an_error_of_the_thread(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def freeze(_engine: Engine, _give_way: object) -> bytes:
        raise CheckpointError("a plugin keeps a lock")

    monkeypatch.setattr(feed, "freeze", freeze)
    with pytest.raises(CheckpointError):
        pair.sender.feed.step()
    pair.sender.add_unit("a")
    assert len(pair.sender.calls) == 0


def test_a_socket_of_another_user_gets_nothing(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> object:
        raise OtherUserError("the process at the other end belongs to another user")

    monkeypatch.setattr(feed, "connect_to", connect)
    with capture_logs() as logs:
        pair.sender.feed.step()
    assert "another user" in logs[0]["error"]
