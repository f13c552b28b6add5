"""Many jobs of all kinds at once, their played operators, and what must never happen."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from typing import Any, Final, Protocol

from shared_api.well_known_labels import ACTIVE, ADMISSION_GATE
from tests.cluster.judgement import Seen, cpu_of, granted_to, is_running
from tests.cluster.kind_table import KindRow, value_at
from tests.cluster.kind_world import JobLife, KindWorld
from tests.cluster.played_pods import OF
from tests.cluster.queue_world import OWN_TIMES_SECONDS
from tests.object_states import is_living, occupies_quota
from tests.waiting import until

Json = dict[str, Any]

LOOK_SECONDS: Final = 0.1
RUN_SECONDS: Final = 1.5
"""How long an evicted job runs: into the next second, so that its operator's status is newer."""


class Step(Enum):
    """The last step that was taken with a job."""

    CREATED = auto()
    HELD = auto()
    MADE = auto()
    RUNS = auto()
    STOPS = auto()
    OVER = auto()


class PlayedJob(Protocol):
    """A job that is taken through its life, one step per call."""

    name: str
    key: str
    """The key of its kind; jobs of one kind share a thread."""
    quota: str
    step: Step
    wanted_releases: int
    """How often it is to be released in its life, by its switch or pod by pod."""
    most_units: int
    """How many units are created for it in its life."""

    def create(self) -> None:
        """Create it on hold."""
        ...

    def look(self, cache: Cache) -> None:
        """Take the next step."""
        ...

    def await_end(self) -> None:
        """Wait until its unit says that it has ended, where such a job ends by itself."""
        ...


Maker = Callable[[KindWorld, int, str], PlayedJob]
"""Returns the job with this number of a kind, in this quota."""


class OneJob:
    """A job that has a suspend field.

    Args:
        life: the job.
        quota: the quota that it names.
        is_evicted: whether it is stopped once while it runs, and requeued.
    """

    def __init__(self, life: JobLife, quota: str, *, is_evicted: bool) -> None:
        self.life, self.quota = life, quota
        self.name, self.key = life.name, life.row.key
        self.wanted_releases = 1 + is_evicted
        self.most_units = 1
        self.step = Step.CREATED
        self._to_evict = is_evicted
        self._runs_since = 0.0

    def create(self) -> None:
        """Create it suspended."""
        self.life.create(self.quota, suspend=True)

    def look(self, cache: Cache) -> None:
        """Take the operator's next step, once the job has been seen."""
        body = cache.jobs.get(self.life.uid)
        if body is None:
            return
        is_suspended = value_at(body, self.life.row.switch) is True
        match self.step:
            case Step.CREATED:
                self.life.operator.hold(self.name)
                self.step = Step.HELD
            case Step.HELD if not is_suspended:
                self.life.operator.make(self.name)
                self.step = Step.MADE
            case Step.MADE if cache.running_pods[self.name] == self.life.row.wanted_pods:
                self.life.operator.say_running(self.name)
                self.step, self._runs_since = Step.RUNS, time.monotonic()
            case Step.RUNS if not self._to_evict:
                self._end()
            case Step.RUNS if time.monotonic() - self._runs_since >= RUN_SECONDS:
                self._stop()
            case _:
                pass

    def await_end(self) -> None:
        """Wait until its unit says that it has ended, where such a job ends by itself."""
        if self.life.row.ends:
            self.life.await_phase("Succeed")

    def _stop(self) -> None:
        self._to_evict = False
        self.life.annotate(ACTIVE, "false")
        until(self.life.is_suspended)
        self.life.operator.stop(self.life.name)
        self.life.await_phase("Enqueued")
        self.life.annotate(ACTIVE, "true")
        self.step = Step.HELD

    def _end(self) -> None:
        """Let it end; a job that never ends is deleted by its user."""
        if self.life.row.ends:
            self.life.operator.end(self.life.name, succeeded=True)
        else:
            self.life.delete()
        self.step = Step.OVER


def switched(row: KindRow, *, evicts_first: bool = True) -> Maker:
    """Return a factory of jobs of a kind with a switch; the first may be evicted once."""

    def make(place: KindWorld, number: int, quota: str) -> PlayedJob:
        life = place.job(row, f"{row.key}-{number}")
        return OneJob(life, quota, is_evicted=evicts_first and number == 0)

    return make


class Traffic:
    """The same number of jobs of each kind, spread over quotas.

    Args:
        place: the cluster to create them in.
        quotas: limits in CPUs, by name.
    """

    def __init__(self, place: KindWorld, quotas: Mapping[str, int]) -> None:
        self.place = place
        self.quotas = dict(quotas)
        self.jobs: list[PlayedJob] = []
        self._moved_at = 0.0
        """Time of the last step of any job: large ones may wait for many small ones."""

    def create(self, makers: Sequence[Maker], count: int) -> None:
        """Create the jobs, of each kind in turn."""
        for quota, cpu in self.quotas.items():
            self.place.create_quota(quota, cpu)
        names = list(self.quotas)
        for number in range(count):
            for make in makers:
                job = make(self.place, number, names[len(self.jobs) % len(names)])
                self.jobs.append(job)
                job.create()

    def run(self) -> None:
        """Play the operator of each kind, each on a thread, until all jobs have ended."""
        kinds = Counter(each.key for each in self.jobs)
        self._moved_at = time.monotonic()
        with ThreadPoolExecutor(len(kinds)) as pool:
            for done in [pool.submit(self._play, key) for key in kinds]:
                done.result()

    def releases(self) -> dict[str, int]:
        """Return the releases of each job, by its name: its switch off, or a pod let go."""
        cache = Cache(self.place.observer.seen, "")
        cache.read()
        switched_off = self._switched_off()
        names = (each.name for each in self.jobs)
        return {name: switched_off.get(name, cache.let_go[name]) for name in names}

    def surplus_units(self) -> dict[str, list[str]]:
        """Return the units that were created for each job that had more than it needs, in words."""
        most = {each.name: each.most_units for each in self.jobs}
        seen = sorted(self.place.observer.seen, key=lambda each: each.version)
        units = (each.body for each in seen if each.plural == "queueunits")
        made: dict[str, dict[str, str]] = {}
        for unit in units:
            meta, job = unit["metadata"], unit["spec"]["consumerRef"]
            words = f"{meta.get('name')} of {job.get('kind')} {job['name']}"
            made.setdefault(whose(unit, most), {}).setdefault(meta["uid"], words)
        return {
            name: [*found.values()]
            for name, found in made.items()
            if len(found) > most.get(name, 0)
        }

    def _switched_off(self) -> dict[str, int]:
        lives = {each.life.uid: each.life for each in self.jobs if isinstance(each, OneJob)}
        was_on: dict[str, bool] = {}
        found = {each.name: 0 for each in lives.values()}
        for each in sorted(self.place.observer.seen, key=lambda each: each.version):
            life = lives.get(each.body["metadata"]["uid"])
            if life is not None and each.plural == life.row.key:
                is_on = value_at(each.body, life.row.switch) is True
                found[life.name] += was_on.get(life.uid, False) and not is_on
                was_on[life.uid] = is_on
        return found

    def _describe_open(self) -> Iterator[str]:
        """Yield what is known of each job that has not ended, with its units and pods."""
        cache = Cache(self.place.observer.seen, "")
        cache.read()
        units = self.place.world.units()
        for job in self.jobs:
            if job.step is Step.OVER:
                continue
            yield (
                f"{job.name} in {job.quota}: {job.step}, runs {cache.running_pods[job.name]}, "
                f"let go {cache.let_go[job.name]} of {job.wanted_releases}"
            )
            for unit in units:
                if whose(unit, (job.name,)) == job.name:
                    yield f"  unit {unit['metadata']['name']}: {unit.get('status')}"
            for pod in cache.pods_of(job.name):
                meta = pod["metadata"]
                yield (
                    f"  pod {meta['name']} {meta['uid']}: gated {is_gated(pod)}, "
                    f"deleted {meta.get('deletionTimestamp')}, {pod.get('status')}"
                )

    def _play(self, key: str) -> None:
        jobs = [each for each in self.jobs if each.key == key]
        cache = Cache(self.place.observer.seen, key)
        while open_ones := [each for each in jobs if each.step is not Step.OVER]:
            stands_for = time.monotonic() - self._moved_at
            assert stands_for < OWN_TIMES_SECONDS, "\n".join(self._describe_open())
            cache.read()
            for each in open_ones:
                before = each.step
                each.look(cache)
                if each.step is not before:
                    self._moved_at = time.monotonic()
            time.sleep(LOOK_SECONDS)


class Cache:
    """The jobs of a kind, and all pods, as the observer saw them last."""

    def __init__(self, seen: list[Seen], plural: str) -> None:
        self.jobs: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        """Those that are there, by name."""
        self.running_pods: Counter[str] = Counter()
        """By the name of their job, as is what follows."""
        self.let_go: Counter[str] = Counter()
        """How many pods have no gate of the queue any more."""
        self._seen, self._at, self._plural = seen, 0, plural
        self._running: dict[str, bool] = {}
        self._let_go: set[str] = set()

    def read(self) -> None:
        """Read what was seen since the last call."""
        until_here = len(self._seen)
        for each in self._seen[self._at : until_here]:
            if each.plural == "pods":
                self._take_in_pod(each)
            elif each.plural == self._plural:
                self.jobs[each.body["metadata"]["uid"]] = each.body
        self._at = until_here

    def pods_of(self, job: str) -> list[Json]:
        """Return the pods of a job that are there."""
        return [pod for pod in self.pods.values() if _job_of(pod) == job]

    def _take_in_pod(self, seen: Seen) -> None:
        uid, name, job = (
            seen.body["metadata"]["uid"],
            seen.body["metadata"]["name"],
            _job_of(seen.body),
        )
        if seen.is_gone:
            self.pods.pop(name, None)
        else:
            self.pods[name] = seen.body
        runs = not seen.is_gone and is_running(seen.body)
        self.running_pods[job] += runs - self._running.get(uid, False)
        self._running[uid] = runs
        if not is_gated(seen.body) and uid not in self._let_go:
            self._let_go.add(uid)
            self.let_go[job] += 1


def find_excess(seen: Iterable[Seen], traffic: Traffic) -> Iterator[str]:
    """Yield a message for each moment at which a quota was exceeded."""
    quota_of = {each.name: each.quota for each in traffic.jobs}
    taken: Counter[tuple[str, str]] = Counter()
    held: dict[str, tuple[tuple[str, str], int]] = {}
    for each in sorted(seen, key=lambda each: each.version):
        meta = each.body["metadata"]
        if each.plural == "pods":
            name = _job_of(each.body)
            takes = is_living(each.body) and not is_gated(each.body)
            amount = cpu_of(each.body) if takes and not each.is_gone else 0
        elif each.plural == "queueunits":
            name = whose(each.body, quota_of)
            amount = 0 if each.is_gone or not occupies_quota(each.body) else granted_to(each.body)
        else:
            continue
        key = (each.plural, quota_of.get(name, ""))
        _, before = held.get(meta["uid"], (key, 0))
        held[meta["uid"]] = (key, amount)
        taken[key] += amount - before
        if amount > before and taken[key] > 1000 * traffic.quotas.get(key[1], 0):
            yield f"{each.version}: {key} takes {taken[key]}m with {name}"


def whose(unit: Json, jobs: Container[str]) -> str:
    """Return the name of a unit's job, "" for none of these.

    A pod of a Deployment and a group of a LeaderWorkerSet have units of their own, which are named
    after it.
    """
    name = str(unit["spec"]["consumerRef"]["name"])
    while name and name not in jobs:
        name, _, _ = name.rpartition("-")
    return name


def is_gated(pod: Json) -> bool:
    """Return whether the queue holds a pod: it takes nothing yet."""
    return any(each["name"] == ADMISSION_GATE for each in pod["spec"].get("schedulingGates", ()))


def _job_of(pod: Json) -> str:
    return str(pod["metadata"].get("labels", {}).get(OF, ""))
