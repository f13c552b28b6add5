"""Writes a plan: all of it by dry run first, then for good. A second time nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from koord_queue.errors import CommandError
from koord_queue.importing.plan import MADE_BY, MADE_BY_VALUE, shown
from koord_queue.reach.dry_run import DryRuns
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.media_types import JSON, MERGE_PATCH
from koord_queue.reach.resources import QUEUE_UNITS, ItemList, Resource, Resources
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import Phase, occupies_quota, phase_of
from shared_api.well_known_labels import (
    ALL_QUOTAS,
    AVAILABLE_QUOTA_IN_NAMESPACE,
    ENABLE_PREEMPTION,
    PREEMPT_RUNNING,
    QUOTA_ALLOW_LENT,
    QUOTA_NAMESPACES,
    QUOTA_PARENT,
    RECLAIM_POLICY,
    SPECIAL_QUOTAS,
    STOP_POLICY,
)

if TYPE_CHECKING:
    from koord_queue.importing.kueue_jobs import MovedJob
    from koord_queue.reach.cluster import Cluster, Query
    from shared_api.process.clock import Clock

Json = dict[str, Any]

FIELD_MANAGER: Final = "koord-queue-import"
ADOPTION_SECONDS: Final = 60.0
"""How long the controllers may take to adopt the jobs that run; a thousand take some seconds."""
LOOK_SECONDS: Final = 0.5
"""Between two looks whether they have."""

_LISTED: Final = AVAILABLE_QUOTA_IN_NAMESPACE[0]
_TAKEN_BACK: Final = frozenset(
    {
        *(ENABLE_PREEMPTION, PREEMPT_RUNNING, STOP_POLICY),
        *(QUOTA_ALLOW_LENT, QUOTA_NAMESPACES, QUOTA_PARENT, RECLAIM_POLICY),
    }
)
"""Keys that an import removes from objects that it has made, when Kueue's no longer ask for them.
Not the weight: Koordinator's webhook sets it where it is missing."""
_OPTIONAL: Final = {"Queue": ("admissionChecks",)}
"""Fields of specs that are removed likewise, by kind."""
_MADE: Final = (
    ("scheduling.x-k8s.io/v1alpha1", "Queue"),
    ("scheduling.sigs.k8s.io/v1alpha1", "ElasticQuota"),
    ("scheduling.x-k8s.io/v1alpha1", "QuotaPolicy"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
)
"""Kinds of objects that an import makes."""
_NO_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
_OURS: Final[Query] = (("labelSelector", f"{MADE_BY}={MADE_BY_VALUE}"),)


class State(Enum):
    """What becomes of an object; the words are those of kubectl."""

    CREATED = "created"
    CHANGED = "configured"
    UNCHANGED = "unchanged"
    FOREIGN = "not made by an import"


class Step(NamedTuple):
    """One object that a plan writes.

    Attributes:
        body: As it is to be.
        patch: The merge patch of the one that exists; empty of a new one.
    """

    body: Json
    resource: Resource
    state: State
    patch: Json

    @property
    def shown(self) -> str:
        """The object as kubectl prints it."""
        return self.resource.shown(self.body["kind"], self.body["metadata"]["name"])


class PlanWriter:
    """Compares a plan with a cluster, and writes it.

    Args:
        cluster: The API server.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._resources = Resources(cluster)

    def compare(self, objects: Sequence[Json]) -> list[Step]:
        """Return what is to be done about each object, in their order.

        Raises:
            CommandError: A kind is not served, or objects may not be read.
        """
        return [self._compare(each) for each in objects]

    def dry_run(self, steps: Iterable[Step]) -> str:
        """Ask the server whether it accepts all steps; return why it was not asked about some.

        Raises:
            CommandError: It refuses one.
        """
        steps = list(steps)
        foreign = [each.shown for each in steps if each.state is State.FOREIGN]
        if foreign:
            raise CommandError(
                f"these exist, differ, and were not made by an import: {', '.join(foreign)}",
                f"Rename or delete them, or hand them over with the label {MADE_BY}="
                f"{MADE_BY_VALUE}. Nothing was written.",
            )
        untried, dry_runs = "", DryRuns(self._cluster)
        for each in steps:
            if why := dry_runs.why_not(each.resource):
                untried = why
                continue
            try:
                self._send(each, (("dryRun", "All"),))
            except CommandError as error:
                raise _refused(each, error, "Nothing was written.") from error
        return untried

    def find_left(self, objects: Iterable[Json]) -> list[str]:
        """Return what earlier imports have made and a plan no longer has: kind/name, or a reason.

        Args:
            objects: Those of the plan.

        Returns:
            A sentence for each namespace, with the command that deletes its objects; one for each
            kind that may not be listed.
        """
        wanted = {(each["kind"], *_place(each)) for each in objects}
        left: dict[str, list[str]] = {}
        unread: list[str] = []
        for api_version, kind in _MADE:
            try:
                resource = self._resources.find(api_version, kind)
                for namespace, name in self._own(resource):
                    if (kind, namespace, name) not in wanted:
                        left.setdefault(namespace, []).append(resource.shown(kind, name))
            except (Missing, NotServed):
                continue
            except Refused as error:
                unread.append(f"what earlier imports have made was not looked for: {error.message}")
        return [*(_kept(*each) for each in sorted(left.items())), *unread]

    def write(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Write the steps; yield each when it is done.

        Raises:
            CommandError: One is refused; those before it are written.
        """
        for each in steps:
            try:
                self._send(each, ())
            except CommandError as error:
                raise _refused(each, error, "Those before it are written.") from error
            yield each

    def move(self, job: MovedJob, *, dry_run: bool) -> None:
        """Give a job its labels.

        Raises:
            CommandError: The server refuses it, or there is none any more.
        """
        resource = self._resources.find(job.api_version, job.kind)
        path = resource.path(job.namespace, job.name)
        query = (("fieldManager", FIELD_MANAGER), *((("dryRun", "All"),) if dry_run else ()))
        try:
            self._cluster.send("PATCH", path, msgspec.json.encode(job.patch), MERGE_PATCH, query)
        except Missing:
            return  # it has ended and was deleted meanwhile
        except CommandError as error:
            step = "Is Kueue's manager stopped, and are its webhook configurations deleted?"
            raise CommandError(f"{job.source}: {error.message}", step) from error

    # --- one object ---------------------------------------------------------------------------

    def _own(self, resource: Resource) -> Iterator[tuple[str, str]]:
        """Yield namespace and name of the objects that imports have made."""
        for page in self._cluster.pages(resource.path(""), _OURS):
            yield from map(_place, msgspec.json.decode(page).get("items") or ())

    def _compare(self, body: Json) -> Step:
        try:
            resource = self._resources.find(body["apiVersion"], body["kind"])
        except Missing as error:
            raise CommandError(
                error.message, "Install Koord-Queue, and Koordinator's ElasticQuota, first."
            ) from error
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"])
        try:
            live = msgspec.json.decode(self._cluster.get(path))
        except Missing:
            if body["kind"] == "Namespace":
                raise CommandError(f"there is no namespace {metadata['name']}") from None
            return Step(body, resource, State.CREATED, {})
        patch = difference(live, body)
        if not patch:
            return Step(body, resource, State.UNCHANGED, {})
        is_own = (live["metadata"].get("labels") or {}).get(MADE_BY) == MADE_BY_VALUE
        state = State.CHANGED if is_own or body["kind"] == "Namespace" else State.FOREIGN
        return Step(body, resource, state, patch)

    def _send(self, step: Step, query: Query) -> None:
        metadata = step.body["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        query = (("fieldManager", FIELD_MANAGER), *query)
        if step.state is State.CREATED:
            body = msgspec.json.encode(step.body)
            self._cluster.send("POST", step.resource.path(namespace), body, JSON, query)
        elif step.state is State.CHANGED:
            body = msgspec.json.encode(step.patch)
            path = step.resource.path(namespace, name)
            self._cluster.send("PATCH", path, body, MERGE_PATCH, query)


def difference(live: Json, want: Json) -> Json:
    """Return the merge patch that makes an object what an import wants; empty if it is so."""
    if want["kind"] == "Namespace":
        return _namespace_difference(live, want)
    patch = _top_changes(live, {key: want[key] for key in want.keys() - _NO_FIELDS})
    spec = dict.fromkeys(_OPTIONAL.get(want["kind"], ())) | want.get("spec", {})
    if of_spec := _top_changes(live.get("spec") or {}, spec):
        patch["spec"] = of_spec
    metadata: Json = {}
    for field in ("labels", "annotations"):
        own = live["metadata"].get(field) or {}
        wanted = want["metadata"].get(field, {})
        changed = {name: text for name, text in wanted.items() if own.get(name) != text}
        changed |= {
            name: None
            for name in own.keys() & _TAKEN_BACK - wanted.keys()
            if own[name] not in SPECIAL_QUOTAS
        }
        if changed:
            metadata[field] = changed
    return patch | ({"metadata": metadata} if metadata else {})


def _top_changes(live: Json, want: Json) -> Json:
    """Return the merge patch of fields; those that are not wanted stay."""
    found = {key: _changes(live.get(key), value) for key, value in want.items()}
    return {key: value for key, value in found.items() if value is not _SAME}


_SAME: Final = object()
"""Stands for no change: a change may be None."""


def _changes(live: Any, want: Any) -> Any:  # noqa: ANN401 - decoded JSON
    """Return the merge patch of a field of a spec, which is replaced; `_SAME` if there is none."""
    if not isinstance(want, dict):
        return _SAME if live == want else want
    own = live if isinstance(live, dict) else {}
    changed = {key: value for key, value in want.items() if own.get(key) != value}
    return changed | dict.fromkeys(own.keys() - want.keys()) or _SAME


def _namespace_difference(live: Json, want: Json) -> Json:
    """Return the patch that adds quotas to those that a namespace may name."""
    text = (live["metadata"].get("annotations") or {}).get(_LISTED, "")
    listed = [name.strip() for name in text.split(",") if name.strip()]
    wanted = want["metadata"]["annotations"][_LISTED].split(",")
    more = [name for name in wanted if name not in listed]
    if not more or ALL_QUOTAS in listed:
        return {}
    return {"metadata": {"annotations": {_LISTED: ",".join((*listed, *more))}}}


def _place(body: Json) -> tuple[str, str]:
    """Return namespace and name of an object."""
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def _kept(namespace: str, names: Sequence[str]) -> str:
    where = f" -n {namespace}" if namespace else ""
    return (
        f"an earlier import has made {', '.join(names)}, and nothing that was read becomes that"
        " now. It is kept; when no job needs it any more, delete it:"
        f" kubectl{where} delete {' '.join(names)}"
    )


def _refused(step: Step, error: CommandError, so_far: str) -> CommandError:
    text = f"{error.next_step} {so_far}".strip()
    return CommandError(f"{shown(step.body)}: {error.message}", text, error.exit_code)


# --- adoption -----------------------------------------------------------------------------------


def wait_until_adopted(cluster: Cluster, jobs: Sequence[MovedJob], clock: Clock) -> list[MovedJob]:
    """Wait until the controllers have adopted jobs; return those that they have not in time.

    A job that has ended meanwhile, or has a unit that was admitted, is as good.
    """
    deadline = clock.monotonic() + ADOPTION_SECONDS
    left = find_uncharged(cluster, jobs)
    while left and clock.monotonic() < deadline:
        clock.sleep(LOOK_SECONDS)
        left = find_uncharged(cluster, left)
    return left


def find_uncharged(cluster: Cluster, jobs: Sequence[MovedJob]) -> list[MovedJob]:
    """Return those of these jobs that have no unit that is charged, or over."""
    counted = {key for each in {job.namespace for job in jobs} for key in _counted(cluster, each)}
    return [job for job in jobs if (job.namespace, job.kind, job.name) not in counted]


def _counted(cluster: Cluster, namespace: str) -> Iterator[tuple[str, str, str]]:
    """Yield namespace, kind and name of the jobs that are charged, or over."""
    ended = {Phase.SUCCEED, Phase.FAILED}
    for page in cluster.pages(QUEUE_UNITS.path(namespace)):
        for unit in msgspec.json.decode(page, type=ItemList[QueueUnit]).items:
            consumer = unit.spec.consumer_ref
            if consumer is not None and (occupies_quota(unit) or phase_of(unit) in ended):
                yield namespace, consumer.kind, consumer.name
