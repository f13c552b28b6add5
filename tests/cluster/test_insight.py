"""The insight program beside the scheduler, as processes: it follows, and nothing depends on it."""

from __future__ import annotations

import os
import resource
import signal
import socket
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from queue_insight.insight_feed.messages import ANSWERS_SOCKET
from tests.cluster.hampered_insight import MOST_BYTES, address_space
from tests.cluster.program_metrics import scrape
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QueueWorld
from tests.waiting import PATIENCE_SECONDS, until

Json = dict[str, Any]

PAGES: Final = ("/debug/queues", "/debug/queues/team", "/debug/quotas")
WITHOUT_ELECTION: Final = "--leader-elect=false"


class Following(NamedTuple):
    """A world with all three programs, and the folder of their sockets."""

    world: QueueWorld
    scheduler: ProgramProcess
    insight: ProgramProcess
    folder: Path

    def ask(self, path: str) -> httpx.Response:
        """Ask the scheduler's debug API, which may wait for the insight program."""
        return self.scheduler.ask(path)

    def state(self) -> Json:
        """Return how far the insight program is, {} while it does not answer."""
        answer = self.ask("/debug/insight")
        return answer.json() if answer.status_code == 200 else {}

    def follows(self) -> bool:
        """Return whether a scheduler is connected, and all that it knew has come."""
        state = self.state()
        return bool(state) and state["connected"] and state["ageSeconds"] < PATIENCE_SECONDS

    def differs(self) -> str:
        """Return a page that the two programs answer differently, "" if there is none."""
        transport = httpx.HTTPTransport(uds=str(self.folder / ANSWERS_SOCKET))
        with httpx.Client(transport=transport, base_url="http://insight") as direct:
            for page in PAGES:
                if direct.get(page).json() != self.ask(page).json():
                    return page
        return ""

    def is_scheduler_well(self) -> bool:
        """Return whether the scheduler runs, and its probes say so."""
        probes = [self.scheduler.get_health(path) for path in ("/livez", "/readyz")]
        return probes == [200, 200] and self.scheduler.exit_code() is None

    def metric(self, name: str, program: ProgramProcess | None = None) -> float:
        """Return a metric without labels of the insight program, or another."""
        for line in scrape(program or self.insight).raise_for_status().text.splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
        return -1.0


@pytest.fixture(scope="module")
def following(controlplane_binaries: Path) -> Iterator[Following]:
    with (
        tempfile.TemporaryDirectory() as folder,
        QueueWorld(controlplane_binaries, jobs=True) as world,
    ):
        world.create_quota("team", cpu_max=8)
        insight = world.start_insight(f"--socket-dir={folder}", f"--record-dir={folder}")
        sockets = f"--insight-socket-dir={folder}"
        scheduler = world.start_scheduler(WITHOUT_ELECTION, sockets)
        world.start_controllers(WITHOUT_ELECTION)
        found = Following(world, scheduler, insight, Path(folder))
        until(found.follows)
        yield found


def run_jobs(
    world: QueueWorld, prefix: str, count: int, *, queue: str = "team", run_seconds: float = 0.2
) -> None:
    for number in range(count):
        world.create_job(f"{prefix}-{number}", queue, run_seconds=run_seconds)


def are_done(world: QueueWorld, prefix: str, count: int) -> bool:
    jobs = [world.job(f"{prefix}-{number}") for number in range(count)]
    return all(job.get("status", {}).get("succeeded") for job in jobs)


def test_it_is_in_the_state_of_the_scheduler(following: Following) -> None:
    # More calls of the engine than there are before the first digest.
    run_jobs(following.world, "life", 100)
    until(lambda: are_done(following.world, "life", 100), OWN_TIMES_SECONDS)
    until(lambda: following.metric("koord_queue_insight_digests_compared_total") > 0)
    run_jobs(following.world, "stay", 12, run_seconds=600)
    until(lambda: not following.differs())
    assert following.metric("koord_queue_insight_digest_mismatches_total") == 0
    assert following.metric("koord_queue_insight_checkpoints_total") == 1
    assert following.state()["leader"] is True
    assert not following.insight.errors()


def test_without_it_jobs_start_and_questions_say_that_it_is_gone(following: Following) -> None:
    following.insight.kill()
    run_jobs(following.world, "alone", 3)
    following.world.resize_quota("team", 40)
    until(lambda: are_done(following.world, "alone", 3))
    answer = following.ask("/debug/insight")
    assert answer.status_code == 503
    assert "the insight program does not answer" in answer.json()["detail"]
    assert following.ask("/debug/queues").status_code == 200
    following.insight.start()
    following.insight.wait_until_ready()
    until(following.follows)
    until(lambda: not following.differs())
    assert following.metric("koord_queue_insight_feed_checkpoints_total", following.scheduler) == 2


def test_it_follows_the_next_scheduler(following: Following) -> None:
    before = following.state()["followingSince"]
    following.scheduler.kill()
    until(lambda: following.metric("koord_queue_insight_connected") == 0)
    following.scheduler.start()
    following.scheduler.wait_until_ready()
    until(lambda: following.follows() and following.state()["followingSince"] > before)
    run_jobs(following.world, "next", 2)
    until(lambda: are_done(following.world, "next", 2))
    until(lambda: not following.differs())
    assert following.insight.exit_code() is None


def test_the_record_knows_what_was(following: Following) -> None:
    """The log and the state of a moment, after the state has changed."""
    world = following.world
    world.create_quota("past", cpu_max=2)
    for name in ("first", "second"):
        world.create_job(name, "past", run_seconds=600)
        until(partial(world.running_pods, name))
    # After the others run: the units of jobs may come in any order.
    world.create_job("third", "past", run_seconds=600)
    until(lambda: refusals_of(following, "default/third"))
    then = datetime.now(UTC)
    before = units_of(following.ask("/debug/queues/past"))
    assert before == ["third"]
    world.delete_job("first")
    until(lambda: not units_of(following.ask("/debug/queues/past")))
    path = f"/debug/queues/past?at={then.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}"
    until(lambda: following.ask(path).status_code == 200)
    assert units_of(following.ask(path)) == before
    # Written a second after it was decided, at the latest.
    until(lambda: kinds_of(following, "default/third") == ["Admitted", "Refused"])
    assert following.state()["record"]["state"] == "recording"


def kinds_of(following: Following, unit: str) -> list[str]:
    """Return what was decided about a unit, the newest first."""
    items = following.ask(f"/debug/log?unit={unit}").raise_for_status().json()["items"]
    return [entry["kind"] for entry in items]


def refusals_of(following: Following, unit: str) -> list[Json]:
    answer = following.ask(f"/debug/log?unit={unit}&reason=OverQuotaMax")
    found: list[Json] = answer.json()["items"] if answer.status_code == 200 else []
    return found


def units_of(answer: httpx.Response) -> list[str]:
    return [unit["name"] for unit in answer.raise_for_status().json()["units"]]


def test_it_ends_when_it_is_told(following: Following) -> None:
    assert following.insight.stop() == 0
    assert not following.insight.errors()


def test_events_say_that_nothing_is_recorded_and_that_it_goes_on(following: Following) -> None:
    """Files that cannot grow, as on a full disk; meanwhile jobs start as always."""
    world, insight = following.world, following.insight
    insight.stop()
    insight.start()
    insight.wait_until_ready()
    world.create_quota("unrecorded", cpu_max=8)
    until(lambda: following.follows() and record_of(following).get("state") == "recording")
    notes = partial(world.event_notes, socket.gethostname(), "Pod")
    jobs = count()
    soft, hard = resource.prlimit(insight.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(insight.pid, resource.RLIMIT_FSIZE, (MOST_BYTES, hard))
    until(lambda: is_run(world, next(jobs)) and "RecordStopped" in notes(), OWN_TIMES_SECONDS)
    assert record_of(following)["state"] == "stopped"
    assert following.metric("koord_queue_insight_record_failures") >= 1
    assert following.metric("koord_queue_insight_record_stopped") == 1
    stopped = datetime.now(UTC)
    resource.prlimit(insight.pid, resource.RLIMIT_FSIZE, (soft, hard))
    until(lambda: is_run(world, next(jobs)) and "RecordResumed" in notes(), OWN_TIMES_SECONDS)
    assert datetime.fromisoformat(record_of(following)["completeFrom"]) > stopped
    gap = following.ask(f"/debug/queues?at={stopped.strftime('%Y-%m-%dT%H:%M:%S.%fZ')}")
    assert gap.status_code == 503
    assert "nothing was recorded after" in gap.json()["detail"]


def is_run(world: QueueWorld, number: int) -> bool:
    """Run a job to its end."""
    world.create_job(f"unrecorded-{number}", "unrecorded", run_seconds=0.2)
    until(lambda: bool(world.job(f"unrecorded-{number}").get("status", {}).get("succeeded")))
    return True


def record_of(following: Following) -> Json:
    return dict(following.state().get("record", {}))


def test_while_it_is_stopped_jobs_start_and_the_scheduler_is_well(following: Following) -> None:
    """A program that neither reads nor ends: its socket takes what fits, and then blocks."""
    world, insight = following.world, following.insight
    until(following.follows)
    world.create_quota("stopped", cpu_max=8)
    os.kill(insight.pid, signal.SIGSTOP)
    try:
        run_jobs(world, "stopped", 60, queue="stopped")
        until(lambda: are_done(world, "stopped", 60), OWN_TIMES_SECONDS)
        assert following.is_scheduler_well()
        assert following.ask("/debug/insight").status_code == 503
        assert following.ask("/debug/queues/stopped").status_code == 200
    finally:
        os.kill(insight.pid, signal.SIGCONT)
    until(following.follows)
    until(lambda: not following.differs())


def test_at_its_memory_limit_jobs_start_and_it_follows_again(following: Following) -> None:
    """No memory to be had: whether it ends or goes on, nobody else notices."""
    world, insight = following.world, following.insight
    until(following.follows)
    world.create_quota("starved", cpu_max=8)
    soft, hard = resource.prlimit(insight.pid, resource.RLIMIT_AS)
    resource.prlimit(insight.pid, resource.RLIMIT_AS, (address_space(insight.pid), hard))
    run_jobs(world, "starved", 20, queue="starved")
    until(lambda: are_done(world, "starved", 20), OWN_TIMES_SECONDS)
    assert following.is_scheduler_well()
    if insight.exit_code() is None:
        resource.prlimit(insight.pid, resource.RLIMIT_AS, (soft, hard))
    else:  # as the kubelet would
        insight.start()
        insight.wait_until_ready()
    until(following.follows, OWN_TIMES_SECONDS)
    until(lambda: not following.differs())
