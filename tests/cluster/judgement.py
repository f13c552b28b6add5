"""Judges a history of Jobs, units, pods and quotas: was any rule broken at any instant?

The history is what the API said, in the order of its resourceVersions (they are revisions of one
store, so they are the order of all kinds). What a quota is charged is written down here once more,
apart from the programs that it judges:

- a unit takes, from its admission until it has ended or was freed, the larger of what its living
  pods ask for and of what it was admitted with, less what it gave back;
- living pods of a Job whose unit is in any other state, or gone, take what they ask for.

More pods than a unit was admitted with are no fault of who admitted it: the Job controller creates
a pod again if the API server was killed meanwhile. What exceeds a quota only with them is noted in
`overgrown`, and whoever asks says when that may be.

Where the API could not tell what happened meanwhile (its memory is lost with a restart), an object
is known before and after only. Such a change gives quota back as early, and takes it as late, as
may have been, and no order is judged within that time: what is found is true whatever happened.

Pure. CPU is the only resource that these histories have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tests.object_states import is_admitted, is_living, is_true, occupies_quota, phase_of

Json = dict[str, Any]

QUOTA_LABEL: Final = "quota.scheduling.koordinator.sh/name"
PARENT_LABEL: Final = "quota.scheduling.koordinator.sh/parent"
MOST_ANCESTORS: Final = 16


class Seen(NamedTuple):
    """An object as it was from one resourceVersion on."""

    version: int
    plural: str
    is_gone: bool
    body: Json
    unwatched_since: int = 0
    """It may have changed at any moment after this resourceVersion. 0: it changed at `version`."""
    seen_at: float = 0.0
    """When an observer saw it, by this machine's monotonic clock; 0: not known."""

    @property
    def order(self) -> tuple[int, int]:
        """Sorts by when it happened; among what nobody watched, what gives quota back first."""
        is_early = self.unwatched_since and not self.takes_quota
        return (self.unwatched_since if is_early else self.version, self.version)

    @property
    def takes_quota(self) -> bool:
        """Return whether quota may be taken from here on."""
        match self.plural:
            case "queueunits":
                return not self.is_gone and occupies_quota(self.body)
            case "pods":
                return not self.is_gone and is_living(self.body)
            case _:
                return not self.is_gone


@dataclass
class JobStory:
    """One Job, and all that happened on its account."""

    name: str
    quota: str = ""
    job: Json = field(default_factory=dict)
    units: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    pods_made: set[str] = field(default_factory=set)
    pods_succeeded: set[str] = field(default_factory=set)
    admissions: int = 0
    releases: int = 0
    completions: int = 0
    released_at: int = 0
    completed_at: int = 0
    """resourceVersions; 0 while it has not happened."""
    charge: int = 0
    admitted: int = 0
    """The charge without the pods beyond those that its unit was admitted with."""


class History:
    """Feed it with `take_all`; it collects in `violations` what should not have been."""

    def __init__(self) -> None:
        self.stories: dict[str, JobStory] = {}
        """By the Job's uid."""
        self.violations: list[str] = []
        self.overgrown: list[tuple[JobStory, str]] = []
        """Quotas that were exceeded by pods beyond those admitted, with the Job that was next."""
        self.used: Counter[str] = Counter()
        """Milli-CPUs by quota, those below it included."""
        self._admitted: Counter[str] = Counter()
        self.peaks: dict[str, int] = {}
        self._quotas: dict[str, Json] = {}
        self._unwatched: list[tuple[int, int]] = []

    def take_all(self, seen: Iterable[Seen]) -> None:
        """Take in a whole history, its events in any order."""
        events = sorted(seen, key=lambda one: one.order)
        self._unwatched = [
            (each.unwatched_since, each.version) for each in events if each.unwatched_since
        ]
        for each in events:
            self._take(each)

    def _take(self, seen: Seen) -> None:
        match seen.plural:
            case "elasticquotas":
                self._on_quota(seen)
            case "jobs":
                self._judge_order(seen, self._on_job(seen))
            case "queueunits":
                story = self._story_of_unit(seen.body)
                self._judge_order(seen, self._on_unit(seen, story))
                self._charge(seen, story)
            case "pods":
                owner = self._story_of_pod(seen.body)
                if owner is not None:
                    self._judge_order(seen, self._on_pod(seen, owner))
                    self._charge(seen, owner)
            case _:
                raise AssertionError(seen.plural)

    def _judge_order(self, seen: Seen, faults: Iterator[str]) -> None:
        in_doubt = any(since < seen.version <= until for since, until in self._unwatched)
        self.violations += [
            f"{fault} (resourceVersion {seen.version})" for fault in faults if not in_doubt
        ]

    # --- one event ----------------------------------------------------------------------------

    def _on_quota(self, seen: Seen) -> None:
        name = seen.body["metadata"]["name"]
        if seen.is_gone:
            self._quotas.pop(name, None)
        else:
            self._quotas[name] = seen.body

    def _on_job(self, seen: Seen) -> Iterator[str]:
        job = seen.body
        story = self._story(job["metadata"]["uid"], job["metadata"]["name"])
        before, story.job = story.job, {} if seen.is_gone else job
        story.quota = story.quota or _labels(job).get(QUOTA_LABEL, "")
        if seen.is_gone or not before:
            return
        if is_suspended(before) and not is_suspended(job):
            story.releases += 1
            story.released_at = seen.version
            if not any(is_admitted(unit) for unit in story.units.values()):
                yield f"{story.name} was released without being admitted"
            elif story.releases > story.admissions:
                yield f"{story.name} was released a second time"
        if is_true(job, "Complete") and not is_true(before, "Complete"):
            story.completions += 1
            story.completed_at = seen.version
            if story.completions > 1:
                yield f"{story.name} completed a second time"

    def _on_unit(self, seen: Seen, story: JobStory) -> Iterator[str]:
        unit, uid = seen.body, seen.body["metadata"]["uid"]
        before = story.units.pop(uid, {})
        if not seen.is_gone:
            story.units[uid] = unit
            story.quota = story.quota or _labels(unit).get(QUOTA_LABEL, "")
            ran_unwatched = seen.unwatched_since and phase_of(unit) == "Succeed" != phase_of(before)
            if (occupies_quota(unit) or ran_unwatched) and not occupies_quota(before):
                story.admissions += 1
        elif occupies_quota(unit) and story.job:
            yield f"the unit of {story.name} vanished while it was {phase_of(unit)}"
        if len(story.units) > 1:
            yield f"{story.name} has {len(story.units)} units"

    def _on_pod(self, seen: Seen, story: JobStory) -> Iterator[str]:
        pod, uid = seen.body, seen.body["metadata"]["uid"]
        if uid not in story.pods_made and not seen.is_gone:
            story.pods_made.add(uid)
            if is_suspended(story.job):
                yield f"a pod of {story.name} was made while that was suspended"
            if not any(is_admitted(unit) for unit in story.units.values()):
                yield f"a pod of {story.name} was made without admission"
        if pod["status"].get("phase") == "Succeeded":
            story.pods_succeeded.add(uid)
        if seen.is_gone:
            story.pods.pop(uid, None)
        else:
            story.pods[uid] = pod

    # --- usage --------------------------------------------------------------------------------

    def _story(self, uid: str, name: str) -> JobStory:
        return self.stories.setdefault(uid, JobStory(name))

    def _story_of_unit(self, unit: Json) -> JobStory:
        meta = unit["metadata"]
        job = unit["spec"].get("consumerRef", {}).get("uid") or meta["uid"]
        return self._story(job, meta["name"])

    def _story_of_pod(self, pod: Json) -> JobStory | None:
        owners = pod["metadata"].get("ownerReferences", ())
        owner = next((each for each in owners if each.get("controller")), None)
        return None if owner is None else self._story(owner["uid"], owner["name"])

    def _charge(self, seen: Seen, story: JobStory) -> None:
        before, story.charge = story.charge, charge_of(story)
        admitted_before, story.admitted = story.admitted, admitted_charge_of(story)
        more = story.charge - before
        for name in self._chain(story.quota):
            self._admitted[name] += story.admitted - admitted_before
            self.used[name] += more
            self.peaks[name] = max(self.peaks.get(name, 0), self.used[name])
            most = cpu_milli(self._quotas[name]["spec"]["max"]["cpu"])
            if more > 0 and self.used[name] > most:
                fault = (
                    f"{story.name} takes quota {name} to {self.used[name]}m CPU of {most}m,"
                    f" itself {story.charge}m (resourceVersion {seen.version})"
                )
                if self._admitted[name] > most:
                    self.violations.append(fault)
                else:
                    self.overgrown.append((story, fault))

    def _chain(self, quota: str) -> Iterator[str]:
        for _ in range(MOST_ANCESTORS):
            if quota not in self._quotas:
                return
            yield quota
            quota = _labels(self._quotas[quota]).get(PARENT_LABEL, "")


# --- what objects say ----------------------------------------------------------------------------


def charge_of(story: JobStory) -> int:
    """Return the milli-CPUs that a Job takes now."""
    return max(living_of(story), admitted_charge_of(story))


def admitted_charge_of(story: JobStory) -> int:
    """Return what its unit was admitted with; without such a unit, what its living pods take."""
    granted = [granted_to(unit) for unit in story.units.values() if occupies_quota(unit)]
    return sum(granted) if granted else living_of(story)


def living_of(story: JobStory) -> int:
    """Return the milli-CPUs that the living pods of a Job ask for."""
    return sum(cpu_of(pod) for pod in story.pods.values() if is_living(pod))


def granted_to(unit: Json) -> int:
    """Return what a unit was admitted with, less what it gave back."""
    status = unit["status"]
    back = {each["name"]: each["count"] for each in status.get("reclaimablePods", ())}
    total = 0
    for pod_set in unit["spec"]["podSet"]:
        name, count = pod_set["name"], pod_set["count"]
        granted = {each["name"]: each["replicas"] for each in status.get("admissions", ())}
        pods = max(granted.get(name, count) - back.get(name, 0), 0)
        total += pods * cpu_of(pod_set["template"])
    return total


def cpu_of(pod: Json) -> int:
    """Return the milli-CPUs that a pod or template of plain containers asks for."""
    return sum(
        cpu_milli(each.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for each in pod["spec"]["containers"]
    )


def cpu_milli(amount: str | int) -> int:
    """Return milli-CPUs of "1500m", "2", 2 or "0.5"."""
    text = str(amount)
    exact = Fraction(text.removesuffix("m")) * (1 if text.endswith("m") else 1000)
    assert exact.denominator == 1, text
    return exact.numerator


def is_running(pod: Json) -> bool:
    """Return whether a pod runs that nobody has deleted."""
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def is_suspended(job: Json) -> bool:
    """Return whether a Job's switch is on."""
    return job.get("spec", {}).get("suspend") is True


def _labels(body: Json) -> dict[str, str]:
    found: dict[str, str] = body["metadata"].get("labels", {})
    return found
