"""The engine that follows takes only what continues what it has."""

from __future__ import annotations

import pytest

from queue_insight.insight_feed.messages import Checkpoint, Digest, State
from queue_insight.insight_program.followed_engine import (
    FollowedEngine,
    FollowError,
    OtherStateError,
)
from queue_insight.record.checkpoint import freeze
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.digest import digest
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import elastic_quota, queue
from shared_api.testing.virtual_clock import EPOCH
from tests.queue_insight.insight_kit import new_engine

PUT_QUEUE = EngineCall(8, 0.0, "on_queue", (queue("team"),))


@pytest.fixture
def followed() -> FollowedEngine:
    engine = new_engine()
    engine.on_quota(elastic_quota("team", max={"cpu": 4}))
    found = FollowedEngine()
    found.begin(Checkpoint(number=7, wall=EPOCH, engine=freeze(engine)))
    return found


def test_it_goes_on_from_the_copy(followed: FollowedEngine) -> None:
    assert followed.play(PUT_QUEUE) == ()
    assert followed.ask(lambda engine: engine.queues.find("team")) is not None
    followed.note_state(State(number=8, wall=EPOCH, is_leader=True))
    got = followed.followed
    assert got is not None
    assert (got.number, got.state_at, got.is_leader, got.since) == (8, EPOCH, True, EPOCH)


@pytest.mark.parametrize("number", [1, 7, 9])
def test_a_gap_is_noticed(followed: FollowedEngine, number: int) -> None:
    with pytest.raises(FollowError, match=f"call {number} came after 7"):
        followed.play(EngineCall(number, 0.0, "on_queue", (queue("team"),)))
    with pytest.raises(FollowError, match="came after 7"):
        followed.note_state(State(number=number + 7, wall=EPOCH, is_leader=True))


def test_without_a_copy_nothing_is_played() -> None:
    with pytest.raises(FollowError):
        FollowedEngine().play(EngineCall(1, 0.0, "on_queue", (queue("team"),)))
    assert FollowedEngine().followed is None


def test_the_same_state_has_the_same_digest(followed: FollowedEngine) -> None:
    followed.compare(Digest(number=7, digest=digest(followed.fork())))
    followed.apply(Engine.on_queue, queue("other"))
    with pytest.raises(OtherStateError, match="after call 7"):
        followed.compare(Digest(number=7, digest=digest(new_engine())))


def test_a_digest_of_another_call_differs(followed: FollowedEngine) -> None:
    with pytest.raises(OtherStateError):
        followed.compare(Digest(number=6, digest=digest(followed.fork())))


def test_a_copy_that_cannot_be_read_leaves_the_engine(followed: FollowedEngine) -> None:
    with pytest.raises(CheckpointError):
        followed.begin(Checkpoint(number=1, wall=EPOCH, engine=b"no pickle"))
    followed.play(PUT_QUEUE)
