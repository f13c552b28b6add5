"""When samples are taken: once a minute, of a state that is known."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from queue_insight.insight_feed.messages import Checkpoint, State
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.sampler import Sampler
from queue_insight.record.checkpoint import freeze
from queue_insight.record.samples import WHOLE, bin_of, of_queue, of_quota
from queue_scheduler.cycles.engine_call import EngineCall
from shared_api.testing.object_builders import elastic_quota, queue, queue_unit
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.insight_kit import new_engine


class Following(NamedTuple):
    """An engine that follows, and its sampler, with both threads stepped by a test."""

    clock: VirtualClock
    engine: FollowedEngine
    sampler: Sampler

    def hear(self) -> None:
        """Take news of the scheduler, in which nothing has changed."""
        followed = self.engine.followed
        assert followed is not None
        self.engine.note_state(State(number=followed.number, wall=self.clock.now(), is_leader=True))


@pytest.fixture
def following() -> Following:
    """A queue and a quota `team`, in which a unit waits since ten minutes."""
    clock, followed, engine = VirtualClock(), FollowedEngine(), new_engine()
    engine.on_quota(elastic_quota("team", max={"cpu": 4}))
    engine.on_queue(queue("team"))
    meta = {
        "uid": "u", "resourceVersion": "1", "creationTimestamp": clock.now().isoformat()[:19] + "Z",
    }  # fmt: skip
    engine.on_queue_unit(queue_unit("u", quota="team", requests={"cpu": 1}, metadata=meta))
    clock.advance(600)
    followed.begin(Checkpoint(number=0, wall=clock.now(), engine=freeze(engine)))
    return Following(clock, followed, Sampler(followed, clock.now))


def test_the_first_minute_is_sampled_at_once_and_each_once(following: Following) -> None:
    clock, sampler = following.clock, following.sampler
    first = sampler.take()
    assert first is not None
    assert first.wall == clock.now().timestamp() // 60 * 60
    assert (first.samples[WHOLE].pending, first.samples[of_queue("team")].pending) == (1, 1)
    assert sampler.take() is None
    walls = []
    for _ in range(150):
        clock.advance(1.0)
        following.hear()
        batch = sampler.take()
        walls += [] if batch is None else [batch.wall]
    assert walls[:2] == [first.wall + 60, first.wall + 120]
    assert len(walls) in {2, 3}


def test_what_is_not_known_is_not_sampled(following: Following) -> None:
    assert Sampler(FollowedEngine(), following.clock.now).take() is None
    following.clock.advance(61)
    assert following.sampler.take() is None, "the scheduler is gone"
    following.hear()
    assert following.sampler.take() is not None


@pytest.mark.parametrize("seconds", [-7_200.0, 7_200.0])
def test_a_clock_that_is_set_is_followed(following: Following, seconds: float) -> None:
    before = following.sampler.take()
    following.clock.jump_wall_clock(seconds)
    following.hear()
    after = following.sampler.take()
    assert before is not None
    assert after is not None
    assert after.wall == before.wall + seconds


def test_waits_are_those_of_decisions_since_the_last_sample(following: Following) -> None:
    clock, engine, sampler = following.clock, following.engine, following.sampler
    assert sampler.take() is not None
    call = EngineCall(
        1, clock.now().timestamp(), "decide_next", ("team", clock.monotonic(), clock.now())
    )
    sampler.note(call, engine.play(call))
    clock.advance(60)
    engine.note_state(State(number=1, wall=clock.now(), is_leader=True))
    batch = sampler.take()
    assert batch is not None
    for of in (WHOLE, of_queue("team"), of_quota("team")):
        assert batch.samples[of].waits == {bin_of(600.0): 1}
        assert batch.samples[of].admitted_from == ("default",)
    clock.advance(60)
    engine.note_state(State(number=1, wall=clock.now(), is_leader=True))
    batch = sampler.take()
    assert batch is not None
    assert batch.samples[WHOLE].waits == {}
