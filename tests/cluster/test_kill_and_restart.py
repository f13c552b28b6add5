"""Both programs are killed twice each and the API server once, with 300 Jobs in progress.

Whatever is killed, at any moment: every Job runs once, and no quota is exceeded at any instant, as
seen by an observer that reads only the API. Beside them the insight program has its volume full, is
stopped, and has no memory left, a third of the time each.
"""

from __future__ import annotations

import http.client
import json
import operator
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.cluster.hampered_insight import FULL, STARVED, STOPPED, HamperedInsight
from tests.cluster.judgement import History, JobStory
from tests.cluster.observer import Observer
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import JOBS, PODS, QueueWorld, quota_view
from tests.cluster.supervised import Supervised
from tests.controlplane.api_client import ApiError
from tests.object_states import is_true, phase_of
from tests.waiting import until

pytestmark = pytest.mark.timeout(1800)

SEED: Final = 311_4
JOB_COUNT: Final = 300
JOBS_PER_SECOND: Final = 15
TOP: Final = "top"
TOP_MAX_CPU: Final = 28
"""Less than the five quotas below have together: they lend to each other, and fill it."""
QUOTAS: Final = ("art", "bio", "law", "med", "phy")
QUOTA_MAX_CPU: Final = 8
QUOTA_MIN_CPU: Final = 4

API_SERVER: Final = "kube-apiserver"
KILLS_OF_EACH: Final = 2
SIGKILLED: Final = -9
# Long enough that a renewal may be late on a busy machine and a write still fits into the rest;
# short enough that a takeover takes ten seconds.
LEASE_FLAGS: Final = (
    "--leader-elect-lease-duration=6",
    "--leader-elect-renew-deadline=4",
    "--leader-elect-retry-period=0.5",
)
INSIGHT_FAULTS: Final = (FULL, STOPPED, STARVED)
ALL_SECONDS: Final = 1200.0
"""For all Jobs; on two idle cores they take less than a tenth of it."""
CLEAN_SECONDS: Final = 300.0
LOOK_SECONDS: Final = 0.05


class Wanted(NamedTuple):
    """A Job to create."""

    name: str
    quota: str
    parallelism: int
    completions: int
    cpu: str
    priority: int
    run_seconds: float


class Disaster(NamedTuple):
    """A process is killed a moment after this many Jobs have completed."""

    completed: int
    delay_seconds: float
    name: str


class Outage(NamedTuple):
    """The API server was down between these resourceVersions."""

    since: int
    until: int


def plan_jobs(rng: random.Random) -> Iterator[Wanted]:
    """Return the load; a seed reproduces it."""
    for number in range(JOB_COUNT):
        parallelism = rng.randint(1, 3)
        yield Wanted(
            name=f"job-{number:03}",
            quota=rng.choice(QUOTAS),
            parallelism=parallelism,
            completions=parallelism + rng.choice((0, 0, 1)),
            cpu=rng.choice(("250m", "500m", "1", "2")),
            priority=rng.randint(0, 3),
            run_seconds=round(rng.uniform(0.2, 1.0), 2),
        )


def plan_disasters(rng: random.Random) -> list[Disaster]:
    """Return what is killed and when; the API server between the others."""
    names = [SCHEDULER, CONTROLLERS] * KILLS_OF_EACH
    rng.shuffle(names)
    names.insert(len(names) // 2, API_SERVER)
    moments = sorted(rng.sample(range(10, JOB_COUNT - 60), len(names)))
    return [
        Disaster(completed, rng.uniform(0.0, 1.0), name)
        for completed, name in zip(moments, names, strict=True)
    ]


class Scenario:
    """Everything that runs in this test.

    Args:
        world: the cluster.
        stack: stops what is started here.
    """

    def __init__(self, world: QueueWorld, stack: ExitStack) -> None:
        self.world = world
        self.jobs = {each.name: each for each in plan_jobs(random.Random(SEED))}
        self.outages: list[Outage] = []
        self.completed: set[str] = set()
        self.open_units: set[str] = set()
        self._looked_at = 0
        self.observer = stack.enter_context(Observer(world.plane.client_for()))
        self.insight = stack.enter_context(HamperedInsight(world.folder))
        self.programs = {
            module: stack.enter_context(Supervised(self._process(module)))
            for module in (SCHEDULER, CONTROLLERS)
        }

    def _process(self, module: str) -> ProgramProcess:
        log = self.world.folder / f"{module}.log"
        insight = [f"--insight-socket-dir={self.world.folder}"] if module == SCHEDULER else []
        return ProgramProcess(module, self.world.plane.kubeconfig, log, [*LEASE_FLAGS, *insight])

    def create_quotas(self) -> None:
        """Create five quotas under one."""
        label = "quota.scheduling.koordinator.sh/"
        create = self.world.create_quota
        create(TOP, cpu_max=TOP_MAX_CPU, labels={f"{label}is-parent": "true"})
        for name in QUOTAS:
            parent = {f"{label}parent": TOP}
            create(name, cpu_max=QUOTA_MAX_CPU, cpu_min=QUOTA_MIN_CPU, labels=parent)

    def run(self) -> None:
        """Create all Jobs, kill what is planned, and return when all Jobs have ended."""
        started = time.monotonic()
        to_create = list(self.jobs.values())
        disasters = plan_disasters(random.Random(SEED))
        while to_create or disasters or len(self.completed) < JOB_COUNT or self.open_units:
            elapsed = time.monotonic() - started
            assert elapsed < ALL_SECONDS, self._state()
            while to_create and JOB_COUNT - len(to_create) < elapsed * JOBS_PER_SECOND:
                self._create(to_create.pop(0))
            if disasters and len(self.completed) >= disasters[0].completed:
                self._strike(disasters.pop(0))
            self.insight.suffer(INSIGHT_FAULTS[3 * len(self.completed) // (JOB_COUNT + 1)])
            time.sleep(LOOK_SECONDS)
            self._look()

    def _create(self, job: Wanted) -> None:
        while not self._try_create(job):
            time.sleep(LOOK_SECONDS)

    def _try_create(self, job: Wanted) -> bool:
        try:
            self.world.create_job(
                job.name,
                job.quota,
                cpu=job.cpu,
                run_seconds=job.run_seconds,
                annotations={"scheduling.x-k8s.io/priority": str(job.priority)},
                parallelism=job.parallelism,
                completions=job.completions,
            )
        except ApiError as refusal:
            if refusal.status == HTTPStatus.CONFLICT:
                return True  # the earlier request arrived, and only its response was lost
            if refusal.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            return False
        except (OSError, http.client.HTTPException):
            return False
        return True

    def _strike(self, disaster: Disaster) -> None:
        time.sleep(disaster.delay_seconds)
        if disaster.name != API_SERVER:
            self.programs[disaster.name].kill()
            return
        since = max(seen.version for seen in self.observer.seen)
        self.world.plane.kill_api_server()
        self.world.plane.restart_api_server()
        jobs = self.world.api.request("GET", JOBS.format("default"))
        self.outages.append(Outage(since, int(jobs["metadata"]["resourceVersion"])))

    def _look(self) -> None:
        """Read what the observer has seen since the last call."""
        new = self.observer.seen[self._looked_at :]
        self._looked_at += len(new)
        for seen in new:
            uid = seen.body["metadata"]["uid"]
            if seen.plural == "jobs" and is_true(seen.body, "Complete"):
                self.completed.add(uid)
            elif seen.plural == "queueunits" and phase_of(seen.body) == "Succeed":
                self.open_units.discard(uid)
            elif seen.plural == "queueunits":
                self.open_units.add(uid)

    def clean_up(self) -> None:
        """Delete all Jobs; return when nothing is left of them, and the observer has seen that."""
        body = {"propagationPolicy": "Background"}
        self.world.api.request("DELETE", JOBS.format("default"), body)
        until(lambda: not self.world.units(), CLEAN_SECONDS)
        until(lambda: not self.world.api.request("GET", PODS)["items"], CLEAN_SECONDS)
        until(lambda: not self._known_to_live(), CLEAN_SECONDS)

    def _known_to_live(self) -> set[str]:
        """Return the uids of objects whose deletion the observer has not seen."""
        living: set[str] = set()
        for seen in sorted(self.observer.seen, key=lambda seen: seen.version):
            if seen.plural != "elasticquotas":
                change = living.discard if seen.is_gone else living.add
                change(seen.body["metadata"]["uid"])
        return living

    def errors(self) -> list[str]:
        """Return what the programs logged as errors, in all of their runs."""
        logs = [(self.world.folder / f"{module}.log").read_text() for module in self.programs]
        return [line for log in logs for line in log.splitlines() if is_error(line)]

    def _state(self) -> str:
        """Return a description of the state, for when it is stuck."""
        return "\n".join(
            [
                f"{len(self.completed)} completed, {len(self.open_units)} units open",
                self.world.plane.kubectl("get", "queueunits", "-o", "wide"),
                *(program.process.log()[-2000:] for program in self.programs.values()),
            ]
        )


def test_every_job_runs_once_whatever_is_killed(controlplane_binaries: Path) -> None:
    """Two kill -9 of each program at random moments, one restart of the API server."""
    with QueueWorld(controlplane_binaries, jobs=True) as world, ExitStack() as stack:
        scenario = Scenario(world, stack)
        scenario.create_quotas()
        scenario.run()
        scheduler = scenario.programs[SCHEDULER].process
        until(lambda: [quota_view(scheduler, name).get("charged") for name in QUOTAS] == [{}] * 5)
        scenario.insight.suffer("")
        until(lambda: is_followed(scheduler))
        scenario.clean_up()
        errors = scenario.errors()
        exit_codes = {name: each.exit_codes for name, each in scenario.programs.items()}
        assert scenario.insight.seen == set(INSIGHT_FAULTS)
    history = History()
    history.take_all(scenario.observer.seen)
    gaps = scenario.observer.gaps
    assert (history.violations, errors) == ([], []), f"gaps of the observer: {gaps}"
    # Pods that the Job controller created again exceed a quota, and nobody could prevent that.
    assert [fault for story, fault in history.overgrown if not is_in_doubt(story, scenario)] == []
    assert {codes.count(SIGKILLED) for codes in exit_codes.values()} == {KILLS_OF_EACH}
    stories = {story.name: story for story in history.stories.values()}
    assert stories.keys() == scenario.jobs.keys()
    wrong = [f for name, story in stories.items() for f in faults(story, scenario, name)]
    assert wrong == []
    # The quotas were contended, else nothing has been shown.
    assert history.peaks[TOP] >= 0.9 * TOP_MAX_CPU * 1000, history.peaks
    assert any(history.peaks[name] > QUOTA_MIN_CPU * 1000 for name in QUOTAS), history.peaks


def is_followed(scheduler: ProgramProcess) -> bool:
    """Return whether the insight program knows all that the scheduler does."""
    answer = scheduler.ask("/debug/insight")
    return answer.status_code == HTTPStatus.OK and answer.json()["connected"] is True


def is_error(line: str) -> bool:
    """Return whether a program's log line reports something that must not happen."""
    try:
        level, event = operator.itemgetter("level", "event")(json.loads(line))
    except ValueError:
        # Either a traceback, or a line cut off when the program was killed.
        return not line.startswith("{")
    # A lost lease is no error where the API server was down for longer than the lease lasts.
    return level == "error" and not event.startswith("lost the lease")


def is_in_doubt(story: JobStory, scenario: Scenario) -> bool:
    """Return whether its pods were created, or ran, while the API server was killed.

    The Job controller creates a pod again if the server was killed during its creation.
    """
    return any(
        story.released_at <= outage.until and story.completed_at >= outage.since
        for outage in scenario.outages
    )


def faults(story: JobStory, scenario: Scenario, name: str) -> Iterator[str]:
    """Return what is wrong with a Job that has ended."""
    wanted = scenario.jobs[name]
    if (story.admissions, story.releases, story.completions) != (1, 1, 1):
        yield f"{name}: {story.admissions}, {story.releases}, {story.completions} times"
    pods, succeeded = len(story.pods_made), len(story.pods_succeeded)
    most = wanted.completions + (wanted.parallelism if is_in_doubt(story, scenario) else 0)
    if not wanted.completions <= succeeded <= pods <= most:
        yield f"{name}: {pods} pods, {succeeded} succeeded, of {wanted.completions}"
    if story.charge or story.job or story.units or story.pods:
        yield f"{name} has left something behind"
