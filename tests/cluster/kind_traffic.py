"""Many jobs of all kinds at once, their operators at work, and what may never happen meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from typing import Any, Final

from shared_api.well_known_labels import ACTIVE
from tests.cluster.judgement import Seen, cpu_of, granted_to, is_booked, is_living
from tests.cluster.kind_table import KindRow, value_at
from tests.cluster.kind_world import JobLife, KindWorld
from tests.cluster.played_pods import OF
from tests.cluster.queue_world import until

Json = dict[str, Any]

LOOK_SECONDS: Final = 0.1
RUN_SECONDS: Final = 1.5
"""How long one that is evicted runs: into the next second, so that its operator's word is newer."""
TURN_SECONDS: Final = 900.0
"""For which no job of a kind goes on at most: those of all other kinds may come first."""


class Step(Enum):
    """What the operator of a job has done last."""

    CREATED = auto()
    HELD = auto()
    MADE = auto()
    RUNS = auto()
    OVER = auto()


class OneJob:
    """A job that is taken through its life, one step at a look.

    Args:
        life: the job.
        quota: the quota that it names.
        is_evicted: whether it is stopped once as it runs, and let in again.
    """

    def __init__(self, life: JobLife, quota: str, *, is_evicted: bool) -> None:
        self.life, self.quota = life, quota
        self.is_evicted = is_evicted
        self.step = Step.CREATED
        self._to_evict = is_evicted
        self._runs_since = 0.0

    def look(self, body: Json, running: int) -> None:
        """Do what is next, given the job and how many pods of it run."""
        is_suspended = value_at(body, self.life.row.switch) is True
        match self.step:
            case Step.CREATED:
                self.life.operator.hold(self.life.name)
                self.step = Step.HELD
            case Step.HELD if not is_suspended:
                self.life.operator.make(self.life.name)
                self.step = Step.MADE
            case Step.MADE if running == self.life.row.wanted_pods:
                self.life.operator.say_running(self.life.name)
                self.step, self._runs_since = Step.RUNS, time.monotonic()
            case Step.RUNS if not self._to_evict:
                self._end()
            case Step.RUNS if time.monotonic() - self._runs_since >= RUN_SECONDS:
                self._stop()
            case _:
                pass

    def _stop(self) -> None:
        self._to_evict = False
        self.life.annotate(ACTIVE, "false")
        until(self.life.is_suspended)
        self.life.operator.stop(self.life.name)
        self.life.await_phase("Enqueued")
        self.life.annotate(ACTIVE, "true")
        self.step = Step.HELD

    def _end(self) -> None:
        """Let it end; who never does is deleted by its user."""
        if self.life.row.ends:
            self.life.operator.end(self.life.name, succeeded=True)
        else:
            self.life.delete()
        self.step = Step.OVER


class Traffic:
    """So many jobs of each kind, spread over quotas.

    Args:
        place: where.
        quotas: limits in CPUs, by name.
        slow: kinds of which none is evicted: that would take a minute.
    """

    def __init__(
        self, place: KindWorld, quotas: Mapping[str, int], *, slow: Iterable[str] = ()
    ) -> None:
        self.place = place
        self.quotas = dict(quotas)
        self.jobs: list[OneJob] = []
        self._slow = frozenset(slow)

    def create(self, rows: Iterable[KindRow], count: int) -> None:
        """Create the jobs, kind by kind in turns; the first of each kind is evicted once."""
        for quota, cpu in self.quotas.items():
            self.place.create_quota(quota, cpu)
        names = list(self.quotas)
        for number in range(count):
            for row in rows:
                life = self.place.job(row, f"{row.key}-{number}")
                evicted = number == 0 and row.key not in self._slow
                quota = names[len(self.jobs) % len(names)]
                self.jobs.append(OneJob(life, quota, is_evicted=evicted))
                life.create(quota, suspend=True)

    def run(self) -> None:
        """Play all operators, each on a thread, until all jobs are over."""
        kinds = Counter(each.life.row.key for each in self.jobs)
        with ThreadPoolExecutor(len(kinds)) as pool:
            for done in [pool.submit(self._play, key) for key in kinds]:
                done.result()

    def releases(self) -> dict[str, int]:
        """Return how often the switch of each job was turned off, by the name of the job."""
        lives = {each.life.uid: each.life for each in self.jobs}
        was_on: dict[str, bool] = {}
        found = {each.name: 0 for each in lives.values()}
        for each in sorted(self.place.observer.seen, key=lambda each: each.version):
            life = lives.get(each.body["metadata"]["uid"])
            if life is not None and each.plural == life.row.key:
                is_on = value_at(each.body, life.row.switch) is True
                found[life.name] += was_on.get(life.uid, False) and not is_on
                was_on[life.uid] = is_on
        return found

    def _play(self, key: str) -> None:
        jobs = [each for each in self.jobs if each.life.row.key == key]
        cache = Cache(self.place.observer.seen, key)
        deadline = time.monotonic() + TURN_SECONDS
        while open_ones := [each for each in jobs if each.step is not Step.OVER]:
            assert time.monotonic() < deadline, [(each.life.name, each.step) for each in open_ones]
            cache.read()
            for each in open_ones:
                before, body = each.step, cache.jobs.get(each.life.uid)
                if body is not None:
                    each.look(body, cache.running_pods[each.life.name])
                if each.step is not before:
                    deadline = time.monotonic() + TURN_SECONDS
            time.sleep(LOOK_SECONDS)


class Cache:
    """The jobs of a kind, and how many pods run, as the observer has seen them last."""

    def __init__(self, seen: list[Seen], plural: str) -> None:
        self.jobs: dict[str, Json] = {}
        self.running_pods: Counter[str] = Counter()
        """By the name of the job that they are of."""
        self._seen, self._at, self._plural = seen, 0, plural
        self._running: dict[str, bool] = {}

    def read(self) -> None:
        """Take in what has been seen since."""
        until_here = len(self._seen)
        for each in self._seen[self._at : until_here]:
            if each.plural == "pods":
                self._take_in_pod(each)
            elif each.plural == self._plural:
                self.jobs[each.body["metadata"]["uid"]] = each.body
        self._at = until_here

    def _take_in_pod(self, seen: Seen) -> None:
        meta, phase = seen.body["metadata"], seen.body["status"].get("phase")
        runs = phase == "Running" and not seen.is_gone and "deletionTimestamp" not in meta
        before = self._running.get(meta["uid"], False)
        self._running[meta["uid"]] = runs
        self.running_pods[meta.get("labels", {}).get(OF, "")] += runs - before


def find_excess(seen: Iterable[Seen], traffic: Traffic) -> Iterator[str]:
    """Yield a line for each moment at which more of a quota was taken than there is."""
    quota_of = {each.life.name: each.quota for each in traffic.jobs}
    taken: Counter[tuple[str, str]] = Counter()
    held: dict[str, tuple[tuple[str, str], int]] = {}
    for each in sorted(seen, key=lambda each: each.version):
        meta = each.body["metadata"]
        if each.plural == "pods":
            name = meta.get("labels", {}).get(OF, "")
            amount = 0 if each.is_gone or not is_living(each.body) else cpu_of(each.body)
        elif each.plural == "queueunits":
            name = each.body["spec"]["consumerRef"]["name"]
            amount = 0 if each.is_gone or not is_booked(each.body) else granted_to(each.body)
        else:
            continue
        key = (each.plural, quota_of.get(name, ""))
        _, before = held.get(meta["uid"], (key, 0))
        held[meta["uid"]] = (key, amount)
        taken[key] += amount - before
        if amount > before and taken[key] > 1000 * traffic.quotas.get(key[1], 0):
            yield f"{each.version}: {key} takes {taken[key]}m with {name}"
