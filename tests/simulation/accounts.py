"""What the judge of all writes knows of one job, read from its unit and pods (`account_judge`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, TypeVar

from shared_api.well_known_labels import QUOTA_NAME, RELATED_QUEUE_UNIT
from tests.demo.unit_charge import Amounts, charge_of
from tests.object_states import is_admitted, is_living, occupies_quota
from tests.simulation.change_feed import ChangeEvent, Json

T = TypeVar("T")

KEPT_STATES: Final = 12
"""Versions of a unit to keep; no cache is ever further behind."""


@dataclass
class Account:
    """One job with everything charged for it."""

    quota: str = ""
    quota_since: int = 0
    """The first version of the unit that said so."""
    job: Json | None = None
    units: dict[str, Json] = field(default_factory=dict)
    """By key."""
    pods: dict[str, Json] = field(default_factory=dict)
    strays: set[str] = field(default_factory=set)
    """Pods that name no unit while the job has none: they belong to no unit until it has one."""
    left_behind: dict[str, frozenset[str]] = field(default_factory=dict)
    """Pods whose unit is deleted and that do not name its quota -> the processes that know it
    anyway: they saw both."""
    pods_since: dict[str, int] = field(default_factory=dict)
    """The version since which a pod is there."""
    ends_since: dict[str, int] = field(default_factory=dict)
    """The version since which a pod terminates. Until a process has seen that, the pod is one of
    those that an admission grants; from then on another one comes in addition."""
    states: list[tuple[int, bool]] = field(default_factory=list)
    """Whether the job may run, and since which version; newest last."""
    pod_counts: list[tuple[int, int]] = field(default_factory=list)
    """How many pods the job asks for, and since which version; newest last."""
    charge: Amounts = field(default_factory=dict)
    elsewhere: dict[str, Amounts] = field(default_factory=dict)
    """What living pods are charged to other quotas, which their labels name."""

    def own_unit(self) -> Json | None:
        """Return the unit that counts: the booked one, or else the oldest."""
        return min(self.units.values(), key=_rank, default=None)

    def put_unit(self, event: ChangeEvent) -> None:
        """Take in a unit as it is now; `units` no longer has it."""
        if not event.is_gone:
            self.units[event.key] = event.body
            self.strays.clear()
            self.left_behind.clear()
        elif not self.units:
            # A process that starts from now on cannot know which unit they belonged to.
            pods = self.pods.items()
            self.strays = {
                key for key, pod in pods if RELATED_QUEUE_UNIT not in annotations_of(pod)
            }

    def put_pod(self, event: ChangeEvent) -> None:
        """Take in a pod as it is now."""
        is_new, self.pods[event.key] = event.key not in self.pods, event.body
        if "deletionTimestamp" in event.body["metadata"]:
            self.ends_since.setdefault(event.key, event.version)
        if not is_new:
            return
        self.pods_since[event.key] = event.version
        self.quota = self.quota or quota_of(event.body)
        if self.units:
            return
        if RELATED_QUEUE_UNIT not in annotations_of(event.body):
            self.strays.add(event.key)
        elif quota_of(event.body) != self.quota:
            self.left_behind[event.key] = frozenset()

    def drop_pod(self, key: str) -> None:
        """Forget a pod."""
        self.pods.pop(key, None)
        self.pods_since.pop(key, None)
        self.ends_since.pop(key, None)
        self.strays.discard(key)
        self.left_behind.pop(key, None)

    def leave_behind(self, seen: Mapping[str, Mapping[str, int]]) -> None:
        """Note which processes know the quota of the pods; their unit is deleted.

        Args:
            seen: what the caches of each process have seen, by plural.
        """
        for key, pod in self.pods.items():
            if quota_of(pod) == self.quota:
                continue
            self.left_behind[key] = frozenset(
                process
                for process, versions in seen.items()
                if versions.get("queueunits", 0) >= self.quota_since
                and versions.get("pods", 0) >= self.pods_since[key]
            )

    def recharge(self) -> None:
        """Recompute what is charged."""
        self.charge = self._charge_without(frozenset())
        moved: dict[str, list[Json]] = {}
        for key, pod in self.pods.items():
            if is_living(pod) and key not in self.strays and self._is_elsewhere(pod):
                moved.setdefault(quota_of(pod), []).append(pod)
        self.elsewhere = {quota: charge_of(None, pods) for quota, pods in moved.items()}

    def _is_elsewhere(self, pod: Json) -> bool:
        """Return whether a pod names another quota than its job."""
        named = (pod["metadata"].get("labels") or {}).get(QUOTA_NAME)
        return bool(named) and named != self.quota

    def charge_known_to(self, process: str) -> Amounts:
        """Return what is charged as far as a process can know."""
        unknown = {key for key, knowing in self.left_behind.items() if process not in knowing}
        return self._charge_without(unknown) if unknown else self.charge

    def _charge_without(self, unknown: AbstractSet[str]) -> Amounts:
        left_out = self.strays | unknown
        own = {key: pod for key, pod in self.pods.items() if not self._is_elsewhere(pod)}
        pods = (pod for key, pod in own.items() if key not in left_out)
        return charge_of(self.own_unit(), pods)

    def note_state(self, version: int) -> None:
        """Take in whether the job may run from that version on."""
        unit = self.own_unit()
        self.states.append((version, unit is not None and is_admitted(unit)))
        del self.states[:-KEPT_STATES]

    def note_pods(self, event: ChangeEvent) -> None:
        """Take in how many pods the job asks for."""
        spec, done = event.body["spec"], event.body.get("status", {}).get("succeeded", 0)
        count = min(spec["parallelism"], (spec.get("completions") or 2**31) - done)
        self.pod_counts.append((event.version, 0 if event.is_gone else count))
        del self.pod_counts[:-KEPT_STATES]

    def least_pods(self, since: int) -> int:
        """Return the smallest number of pods that the job asked for from that version on."""
        return min((count for _, count in _since(self.pod_counts, since)), default=0)

    def was_admitted(self, since: int) -> bool:
        """Return whether the job was allowed to run at any moment from that version on."""
        return any(admitted for _, admitted in _since(self.states, since))

    def was_held(self, since: int) -> bool:
        """Return whether the job was not allowed to run at any moment from that version on."""
        states = list(_since(self.states, since))
        return not states or not all(admitted for _, admitted in states)


def job_uid(unit: Json) -> str:
    """Return the uid of a unit's job; without a job, the unit's own."""
    uid: str = (unit["spec"].get("consumerRef") or {}).get("uid") or unit["metadata"]["uid"]
    return uid


def quota_of(body: Json) -> str:
    """Return the quota that an object names, or else the one named like its namespace."""
    metadata = body["metadata"]
    named: str = (metadata.get("labels") or {}).get(QUOTA_NAME) or metadata["namespace"]
    return named


def annotations_of(body: Json) -> Json:
    """Return the annotations of an object."""
    return body["metadata"].get("annotations") or {}


def _rank(unit: Json) -> tuple[bool, str, str]:
    meta = unit["metadata"]
    return (not occupies_quota(unit), meta["creationTimestamp"], meta["name"])


def _since(states: Sequence[tuple[int, T]], since: int) -> Iterator[tuple[int, T]]:
    """Iterate over the states that held at any moment from that version on."""
    for place, (version, state) in enumerate(states):
        until = states[place + 1][0] if place + 1 < len(states) else None
        if until is None or until > since:
            yield version, state
