"""Every second write of both programs gets a 409 for a minute; this only slows them down."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from shared_api.fake_api_server.faults import EVERY_TIME, Match, RequestInfo
from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

STORM_SECONDS = 60.0
NAMES = tuple(f"job-{number}" for number in range(6))
MOST_WRITES = 30
"""Writes of one object in its life; without conflicts, a job needs two and its unit four."""


def refuse_every_second_write(town: Town) -> Counter[str]:
    """Install the fault; return a counter of refused writes by kind."""
    numbers, refused = count(), Counter[str]()

    def is_refused(info: RequestInfo) -> bool:
        if not info.is_write or next(numbers) % 2 == 0:
            return False
        refused[f"{info.verb} {info.plural}"] += 1
        return True

    server = town.scheduling.server
    server.faults.fail(409, times=EVERY_TIME, match=Match(when=is_refused))
    return refused


class Cluster:
    """Runs the pods of a released job for three seconds, then ends it; a stopped job has none."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self._running_since: dict[str, float] = {}
        self.ended: list[str] = []
        self.most = 0
        """The largest number of units admitted at the same time."""

    def turn(self) -> None:
        """Let some time pass."""
        town, jobs = self._town, self._town.jobs
        now = town.scheduling.clock.monotonic()
        for name in NAMES:
            runs = name in self._running_since
            if name in self.ended or (jobs.is_suspended(name) and not runs):
                continue
            if not runs:
                self._running_since[name] = now
                town.add_pod(0, name)
                started = {"startTime": jobs.now(), "active": 1, "ready": 1}
                jobs.patch_job_status(started, name)
            elif jobs.is_suspended(name):
                del self._running_since[name]
                jobs.end_pods(1, name)
            elif now - self._running_since[name] >= 3.0:
                del self._running_since[name]
                town.delete_pod(0, name)
                jobs.complete(name)
                self.ended.append(name)
        town.pass_time(0.4)
        phases = [each["status"]["phase"] for each in jobs.direct.list("queueunits")]
        self.most = max(self.most, phases.count("Dequeued") + phases.count("Running"))


def test_every_second_write_is_a_conflict_for_a_minute(town: Town) -> None:
    """Of six jobs, two fit at a time; each has one unit and ends, most during the faults."""
    refused = refuse_every_second_write(town)
    for name in NAMES:
        town.jobs.job(name, parallelism=1, completions=1, suspend=name < "job-3")
        town.scheduling.clock.advance(1.0)
    cluster, clock = Cluster(town), town.scheduling.clock
    over = clock.monotonic() + STORM_SECONDS
    while clock.monotonic() < over:
        cluster.turn()
    assert len(cluster.ended) >= 4, cluster.ended
    town.scheduling.server.faults.clear()
    while len(cluster.ended) < len(NAMES):
        assert clock.monotonic() < over + STORM_SECONDS, cluster.ended
        cluster.turn()
    town.pass_time(5.0)
    assert sorted(town.jobs.units()) == list(NAMES)
    assert {town.jobs.phase(name) for name in NAMES} == {"Succeed"}
    assert cluster.most == 2
    assert {"patch queueunits", "patch jobs", "create queueunits"} <= refused.keys()
    written = Counter(
        f"{entry.info.plural}/{entry.info.name}"
        for entry in town.scheduling.server.journal
        if entry.info.is_write and entry.info.name
    )
    assert max(written.values()) <= MOST_WRITES, written.most_common(3)
