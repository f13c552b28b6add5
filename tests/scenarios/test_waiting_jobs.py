"""What the user of a job reads on it while it waits; both programs over one server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.queue_controllers.conftest import World
from tests.queue_scheduler.scheduler_world import SchedulerWorld, running_world

pytestmark = pytest.mark.scenario

SILVER = {"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "silver"}}}


class Town:
    """One cluster with both programs."""

    def __init__(self, scheduling: SchedulerWorld) -> None:
        self.scheduling = scheduling
        self.jobs = World(quotas=False, beside=(scheduling.server, scheduling.clock))
        scheduling.start()
        self.jobs.start()

    def pass_time(self, seconds: float) -> None:
        """Let both programs work while so much time passes."""
        until = self.scheduling.clock.monotonic() + seconds
        while self.scheduling.clock.monotonic() < until:
            self.scheduling.settle(0.1)
            self.jobs.settle(0.1)

    def told(self) -> list[tuple[str, str]]:
        """Return reason and note of each event on a Job, sorted."""
        events = self.jobs.direct.list("events.events.k8s.io")
        return sorted(
            (each["reason"], each["note"]) for each in events if each["regarding"]["kind"] == "Job"
        )


@pytest.fixture
def town() -> Iterator[Town]:
    with running_world() as scheduling:
        yield Town(scheduling)


def test_a_job_whose_quota_is_missing_says_so_once_and_another_one_again(town: Town) -> None:
    town.jobs.job()
    town.pass_time(12.0)
    ((reason, note),) = town.told()
    assert reason == "NoQuota"
    assert "gold does not exist" in note
    town.jobs.patch_job(SILVER)
    town.pass_time(10.0)
    notes = [note for _, note in town.told()]
    assert len(notes) == 2
    assert any("silver does not exist" in note for note in notes)


def test_a_job_of_which_the_demand_can_not_be_read_says_so(town: Town) -> None:
    town.scheduling.add_quota("gold", cpu=2)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1e999"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    town.jobs.job(template={"spec": pod})
    town.pass_time(10.0)
    ((reason, note),) = town.told()
    assert reason == "InvalidDemand"
    assert "requests.cpu: exponent 999" in note


def test_a_job_that_waits_for_room_says_nothing_and_none_costs_a_write_more(town: Town) -> None:
    town.scheduling.add_quota("gold", cpu=2)
    town.pass_time(5.0)
    for name in ("first", "second"):
        town.jobs.job(name)
        town.pass_time(10.0)
    assert not town.jobs.is_suspended("first")
    assert town.jobs.is_suspended("second")
    assert town.told() == []
    own = [entry for entry in town.jobs.server.journal if entry.info.name == "first"]
    assert [entry.info.verb for entry in own if entry.info.is_write] == ["patch", "patch"]
