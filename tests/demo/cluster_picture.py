"""The current state of jobs and their history so far, for the table and the summary.

It applies events as they arrive, so two kinds may differ by a moment; the observer is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from shared_api.quantity import amount
from tests.demo.event_feed import Seen
from tests.demo.json_api import Json
from tests.demo.load_plan import GpuShape
from tests.demo.unit_charge import granted_to, requests_of
from tests.object_states import is_living, is_true, occupies_quota, phase_of

WAITING_PHASES: Final = frozenset(("Enqueued", "Reserved", "TimeoutBackoff"))
ENDED_PHASES: Final = frozenset(("Succeed", "Failed"))


@dataclass(kw_only=True)
class JobStory:
    """The times of the events of a job, in monotonic seconds."""

    namespace: str
    submitted_at: float
    released_at: float | None = None
    ended_at: float | None = None
    succeeded: bool = False


@dataclass(frozen=True, kw_only=True)
class QueueRow:
    """The current state of a queue; GPUs are whole GPUs of the trace."""

    name: str
    waiting: int
    running: int
    done: int
    used: int
    least: int
    most: int
    longest_wait_seconds: float
    unplaced_pods: int = 0
    """The number of pods of admitted jobs for which the cluster's scheduler has found no node."""
    why_unplaced: str = ""
    """The scheduler's message for the one that has waited longest."""


@dataclass
class GpuUse:
    """GPUs used by running pods, summed over time."""

    now: dict[str, int] = field(default_factory=dict)
    """GPUs in use by namespace."""
    seconds: dict[str, float] = field(default_factory=dict)
    """GPU-seconds by namespace."""
    samples: list[tuple[float, int]] = field(default_factory=list)
    """(time, number of GPUs) at each change."""
    since: float | None = None

    def change(self, namespace: str, gpus: int, at: float) -> None:
        """Add this many GPUs (or remove, if negative) from this time on."""
        self.add_up(at)
        self.now[namespace] = self.now.get(namespace, 0) + gpus
        self.samples.append((at, sum(self.now.values())))

    def add_up(self, at: float) -> None:
        """Sum the usage until this time."""
        if self.since is not None:
            for namespace, gpus in self.now.items():
                used = gpus * (at - self.since)
                self.seconds[namespace] = self.seconds.get(namespace, 0.0) + used
        self.since = at


class ClusterPicture:
    """The state from the events of the feeds. For one thread."""

    def __init__(self, shape: GpuShape) -> None:
        self._shape = shape
        self._units: dict[str, Json] = {}
        self._quotas: dict[str, Json] = {}
        self._pod_gpus: dict[str, int] = {}
        """GPUs of each running pod, by uid."""
        self._unplaced: dict[str, tuple[str, str]] = {}
        """(namespace, reason) of each pod that fits no node, by uid, in the order of detection."""
        self.jobs: dict[tuple[str, str], JobStory] = {}
        self.use = GpuUse()

    def apply(self, seen: Seen) -> None:
        """Apply an event."""
        match seen.plural:
            case "elasticquotas":
                _keep(self._quotas, seen.body["metadata"]["name"], seen)
            case "queueunits":
                _keep(self._units, seen.body["metadata"]["uid"], seen)
            case "jobs":
                self._on_job(seen)
            case "pods":
                self._on_pod(seen)
            case _:
                pass

    def _on_job(self, seen: Seen) -> None:
        job, meta = seen.body, seen.body["metadata"]
        if seen.is_gone:
            return
        key = (meta["namespace"], meta["name"])
        story = self.jobs.setdefault(key, JobStory(namespace=key[0], submitted_at=seen.at))
        if story.released_at is None and not job["spec"].get("suspend"):
            story.released_at = seen.at
        for condition in ("Complete", "Failed"):
            if story.ended_at is None and is_true(job, condition):
                story.ended_at = seen.at
                story.succeeded = condition == "Complete"

    def _on_pod(self, seen: Seen) -> None:
        pod = seen.body
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        runs = pod.get("status", {}).get("phase") == "Running" and is_living(pod)
        gpus = self._gpus(requests_of(pod)) if runs and not seen.is_gone else 0
        change = gpus - self._pod_gpus.get(uid, 0)
        self._pod_gpus[uid] = gpus
        why = "" if seen.is_gone else why_unplaced(pod)
        if not why:
            self._unplaced.pop(uid, None)
        elif uid not in self._unplaced:
            self._unplaced[uid] = (namespace, why)
        if change:
            self.use.change(namespace, change, seen.at)

    def _gpus(self, amounts: dict[str, int]) -> int:
        return self._shape.gpus(amounts.get(self._shape.counted, 0))

    # ------------------------------------------------------------------------------ questions

    @property
    def submitted(self) -> int:
        """The number of jobs seen so far."""
        return len(self.jobs)

    @property
    def ended(self) -> int:
        """The number of jobs that are complete or have failed."""
        return sum(story.ended_at is not None for story in self.jobs.values())

    def is_everything_settled(self) -> bool:
        """Whether every job has ended, and the phase of every unit too."""
        units_ended = all(phase_of(unit) in ENDED_PHASES for unit in self._units.values())
        return units_ended and all(story.ended_at is not None for story in self.jobs.values())

    def rows(self, names: tuple[str, ...], now: float) -> Iterator[QueueRow]:
        """Yield a row per queue; queue, quota, and namespace have the same name here."""
        for name in names:
            units = [u for u in self._units.values() if u["metadata"]["namespace"] == name]
            stories = [story for story in self.jobs.values() if story.namespace == name]
            waits = [now - s.submitted_at for s in stories if s.released_at is None]
            least, most = self._limits(name)
            unplaced = [why for namespace, why in self._unplaced.values() if namespace == name]
            yield QueueRow(
                name=name,
                waiting=sum(phase_of(unit) in WAITING_PHASES for unit in units),
                running=sum(occupies_quota(unit) for unit in units),
                done=sum(phase_of(unit) in ENDED_PHASES for unit in units),
                used=sum(self._gpus(granted_to(unit)) for unit in units if occupies_quota(unit)),
                least=least,
                most=most,
                longest_wait_seconds=max(waits, default=0.0),
                unplaced_pods=len(unplaced),
                why_unplaced=next(iter(unplaced), ""),
            )

    def _limits(self, quota: str) -> tuple[int, int]:
        spec = self._quotas.get(quota, {}).get("spec", {})
        counted = self._shape.counted
        least, most = (amount(counted, spec.get(end, {}).get(counted, 0)) for end in ("min", "max"))
        return self._shape.gpus(least), self._shape.gpus(most)


def why_unplaced(pod: Json) -> str:
    """Return why the cluster's scheduler has found no node for a pod, "" if it has not reported."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            return str(condition.get("message") or condition.get("reason", ""))
    return ""


def _keep(table: dict[str, Json], key: str, seen: Seen) -> None:
    if seen.is_gone:
        table.pop(key, None)
    else:
        table[key] = seen.body
