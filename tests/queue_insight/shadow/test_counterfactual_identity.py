"""The shadow of this very queue: what it has decided, it would have decided."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest

from queue_insight.insight.virtual_cluster import (
    Arrival,
    Event,
    EventKind,
    Outside,
    VirtualCluster,
)
from queue_insight.replay.replayed_world import build_engine
from queue_insight.shadow.command import Settings, play
from queue_insight.shadow.counterfactual import build_world
from queue_insight.shadow.folder import RecordFile, read_lines
from queue_insight.shadow.lines import (
    FORMAT,
    Alive,
    Header,
    JobEnded,
    JobSeen,
    JobStarted,
    JobStopped,
    Line,
    ObjectSeen,
)
from queue_insight.shadow.story import read_story
from queue_scheduler.decision import Moment
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.object_builders import queue_body
from shared_api.testing.virtual_clock import EPOCH
from shared_api.well_known_labels import BACKFILL, ENABLE_PREEMPTION, MANAGED_BY, PREEMPT_RUNNING
from tests.properties.engine_kit import build_unit, declaring
from tests.queue_insight.shadow.shadow_kit import BEGAN, quota

Json = dict[str, Any]

QUOTAS = {"a": 4, "b": 6, "c": 3}
JOBS = 60
SWITCHES = (BACKFILL, ENABLE_PREEMPTION, PREEMPT_RUNNING)


class Recorded:
    """Our own queue with random quotas and jobs, and the record of what it did."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.runs: dict[str, float] = {}
        objects = [quota(name, cpu) for name, cpu in QUOTAS.items()]
        for name in QUOTAS:
            policy = rng.choice(["FIFO", "Priority", "Block", "Intelligent"])
            marks = {key: "true" for key in SWITCHES if rng.random() < 0.5}
            meta: Json = {"uid": f"queue-{name}", "annotations": marks}
            objects.append(queue_body(name, namespace="kq", policy=policy, metadata=meta))
        header = Header(at=BEGAN, format=FORMAT, version="1")
        self.lines: list[Line] = [header, *(ObjectSeen(at=BEGAN, body=each) for each in objects)]
        self.starts: dict[str, list[float]] = {}
        self.evictions = 0
        cluster = VirtualCluster(
            build_engine(build_world(objects, None, "")),
            Moment(0.0, EPOCH),
            Outside(run_seconds=lambda unit, ran: self.runs[unit.metadata.uid] - ran),
            self._arrivals(),
            self._on_event,
        )
        cluster.run(inf)
        self.lines.append(Alive(at=BEGAN + cluster.agenda.now))

    def _arrivals(self) -> Iterator[Arrival]:
        rng, now = self.rng, 0.0
        for number in range(JOBS):
            now += rng.choice([0, 0, 1, 5, 20])
            quota = rng.choice([*QUOTAS])
            unit = build_unit(
                f"job-{number:02}",
                quota,
                cpu=None,
                pods=(("main", rng.randint(1, QUOTAS[quota]), 1),),
                priority=rng.randint(0, 3),
                annotations={MANAGED_BY: "koord-queue-controllers"},
            )
            self.runs[unit.metadata.uid] = float(rng.randint(1, 40))
            yield Arrival(now, declaring(unit, rng.choice([None, 1000, 2000])))

    def _on_event(self, event: Event) -> None:
        uid, at = event.unit.metadata.uid, BEGAN + event.now
        match event.kind:
            case EventKind.ARRIVED:
                self.lines.append(_seen(event.unit, at))
            case EventKind.ADMITTED:
                self.starts.setdefault(uid, []).append(at)
                self.lines.append(JobStarted(at=at, uid=uid))
            case EventKind.FREED:
                self.evictions += 1
                self.lines.append(JobStopped(at=at, uid=uid))
            case EventKind.FINISHED:
                self.lines.append(JobEnded(at=at, uid=uid, outcome="succeeded"))
            case _:
                pass


def _seen(unit: QueueUnit, at: float) -> JobSeen:
    body = msgspec.json.decode(msgspec.json.encode(unit))
    return JobSeen(
        at=at, uid=unit.metadata.uid, job=unit.metadata.key, kind="job", submitted=at, unit=body
    )


@pytest.mark.parametrize("seed", range(12))
def test_the_shadow_of_ourselves_is_what_we_did(seed: int) -> None:
    recorded = Recorded(seed)
    story = read_story(recorded.lines)
    played = play(recorded.lines, story, Settings())
    got = {uid: [run.start for run in fate.runs] for uid, fate in played.fates.items()}
    assert got == recorded.starts
    ends = {uid: fate.runs[-1].end for uid, fate in played.fates.items()}
    assert ends == {uid: job.ended for uid, job in story.jobs.items()}


def test_the_record_has_waits_and_evictions() -> None:
    recorded = [Recorded(seed) for seed in range(12)]
    assert sum(each.evictions for each in recorded) > 10
    waits = [
        job.runs[0].start - job.seen.submitted
        for each in recorded
        for job in read_story(each.lines).jobs.values()
    ]
    assert sum(wait > 60 for wait in waits) > 100


def test_the_record_on_disk_says_the_same(tmp_path: Path) -> None:
    recorded = Recorded(1)
    file = RecordFile(tmp_path, 1 << 30)
    for line in recorded.lines:
        file.write(line)
    file.close()
    assert list(read_lines(tmp_path)) == recorded.lines
