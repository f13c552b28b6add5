"""Jobs on the fake API server run and end as in a real cluster."""

from __future__ import annotations

import random
from typing import Any

import pytest

from shared_api.fake_api_server.server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from tests.demo.cluster_player import START_SECONDS, STOP_SECONDS, ClusterPlayer
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import REAL_GPUS, build_node, build_plan
from tests.demo.make_slice import TraceRow

Json = dict[str, Any]
RUN = 5.0


class World:
    """A server, its player, and virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FakeApiServer(clock=self.clock, rng=random.Random(1))
        self.player = ClusterPlayer(JsonApi(self.server), clock=self.clock, rng=random.Random(2))
        self.direct = self.server.direct
        self.direct.create(build_node("node-1", REAL_GPUS))

    def submit(self, name: str, gpus: int, *, suspend: bool = True) -> None:
        row = TraceRow(submit_time_s=0, duration_s=600, tenant="a", gpu=gpus)
        body = build_plan([row], shape=REAL_GPUS, submit_seconds=16 * 3600 / 600 * RUN).jobs[0].body
        body["metadata"] |= {"name": name, "namespace": "default"}
        body["spec"]["suspend"] = suspend
        self.direct.create(body)

    def suspend(self, name: str, *, to: bool) -> None:
        self.direct.patch("jobs", name, {"spec": {"suspend": to}}, namespace="default")

    def pass_time(self, seconds: float) -> None:
        """Advance the time in small steps, as the player's thread would."""
        for _ in range(max(round(seconds / 0.1), 1)):
            self.player.step()
            self.clock.advance(0.1)
        self.player.step()

    def status(self, name: str) -> Json:
        got: Json = self.direct.get("jobs", name, "default").get("status", {})
        return got

    def is_true(self, name: str, condition: str) -> bool:
        found = self.status(name).get("conditions", ())
        return any(c["type"] == condition and c["status"] == "True" for c in found)

    def pods(self) -> list[Json]:
        return self.direct.list("pods", "default")

    def phases(self) -> list[str]:
        return [pod["status"]["phase"] for pod in self.pods()]


@pytest.fixture
def world() -> World:
    return World()


def test_a_suspended_job_has_no_pods(world: World) -> None:
    world.submit("train", 1)
    world.pass_time(1)
    assert world.pods() == []
    assert world.is_true("train", "Suspended")


def test_a_released_job_runs_for_its_time_and_completes(world: World) -> None:
    world.submit("train", 4)
    world.pass_time(1)
    world.suspend("train", to=False)
    world.player.step()
    assert world.phases() == ["Pending"]
    world.pass_time(START_SECONDS + 0.1)
    assert world.phases() == ["Running"]
    assert world.status("train")["ready"] == 1
    world.pass_time(RUN - 1)
    assert world.phases() == ["Running"]
    world.pass_time(1.5)
    assert world.phases() == ["Succeeded"]
    assert world.is_true("train", "Complete")
    assert world.status("train")["succeeded"] == 1


def test_a_suspended_job_loses_its_pods_after_a_while(world: World) -> None:
    world.submit("train", 4, suspend=False)
    world.pass_time(1)
    world.suspend("train", to=True)
    world.player.step()
    assert [bool(pod["metadata"].get("deletionTimestamp")) for pod in world.pods()] == [True]
    assert world.status("train")["terminating"] == 1
    world.pass_time(STOP_SECONDS + 0.2)
    assert world.pods() == []
    assert world.status("train")["terminating"] == 0
    assert not world.is_true("train", "Complete")


def test_a_resumed_job_starts_again(world: World) -> None:
    world.submit("train", 4, suspend=False)
    world.pass_time(1)
    world.suspend("train", to=True)
    world.pass_time(1)
    world.suspend("train", to=False)
    world.pass_time(RUN + 1)
    assert world.is_true("train", "Complete")


def test_pods_that_fit_no_node_wait_for_room(world: World) -> None:
    world.submit("first", 8, suspend=False)
    world.submit("second", 8, suspend=False)
    world.pass_time(1)
    assert world.phases() == ["Running"]
    world.pass_time(RUN)
    assert sorted(world.phases()) == ["Running", "Succeeded"]
    world.pass_time(RUN)
    assert world.is_true("second", "Complete")


def test_a_manually_deleted_pod_is_replaced(world: World) -> None:
    world.submit("train", 1, suspend=False)
    world.pass_time(1)
    world.direct.delete("pods", world.pods()[0]["metadata"]["name"], "default")
    world.pass_time(RUN + 2)
    assert world.is_true("train", "Complete")


def test_the_pods_of_a_deleted_job_are_deleted(world: World) -> None:
    world.submit("train", 8, suspend=False)
    world.pass_time(1)
    world.direct.delete("jobs", "train", "default", "Background")
    world.pass_time(1)
    assert world.pods() == []
    world.submit("next", 8, suspend=False)
    world.pass_time(1)
    assert world.phases() == ["Running"]


def test_a_broken_watch_continues_from_its_version(world: World) -> None:
    world.submit("train", 1, suspend=False)
    world.pass_time(1)
    world.server.watches.drop()
    world.pass_time(RUN + 1)
    assert world.is_true("train", "Complete")


def test_jobs_of_another_controller_are_ignored(world: World) -> None:
    row = TraceRow(submit_time_s=0, duration_s=600, tenant="a", gpu=1)
    body = build_plan([row], shape=REAL_GPUS).jobs[0].body
    body["metadata"] |= {"name": "foreign", "namespace": "default"}
    body["spec"] |= {"suspend": False, "managedBy": "example.com/other"}
    world.direct.create(body)
    world.pass_time(1)
    assert world.pods() == []
    assert world.status("foreign") == {}
