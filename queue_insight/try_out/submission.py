"""Units of a manifest on a copy of the engine: where each stands, whether it starts, why not. Pure.

The jobs of a manifest are applied one after the other, and the queue comes to rest in between. So
what starts first takes its share before the next one is decided. A job that is queued already is
updated: its unit changes as its controllers would change it. So are queues and quotas that exist,
and QuotaPolicies, before all jobs. Queues and quotas that do not exist are not created: the
scheduler itself would make a queue of a new quota. A policy makes nothing, so a new one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from queue_controllers.manifests.verdicts import (
    DEFAULTS,
    ClusterFacts,
    Document,
    FieldError,
    Manifest,
    ManifestError,
    Verdict,
)
from queue_insight.insight.changes import Changes, find_changes
from queue_insight.insight.explain import Explanation, explain, needs_fork
from queue_insight.insight.trials import SpentError, Trials, never_late, replacement
from queue_insight.what_if.apply import apply_edits
from queue_insight.what_if.edit import PATCH, Edit, EditError
from queue_scheduler.cache.unit_state import CachedUnit
from queue_scheduler.engine.engine import Engine
from queue_scheduler.unit_writes.applied_patches import merged
from shared_api.authorization.rights import ResourceRight
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import is_final
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import read_quota_name

UNREADABLE: Final = ManifestError
"""Raised for manifests that cannot be read, or are too large."""


_EDITED: Final = {
    ("scheduling.x-k8s.io", "Queue"): "queues",
    ("scheduling.x-k8s.io", "QuotaPolicy"): "quotapolicies",
    ("scheduling.sigs.k8s.io", "ElasticQuota"): "elasticquotas",
    ("scheduling.sigs.k8s.io", "ElasticQuotaTree"): "elasticquotatrees",
}
"""Kinds whose objects jobs depend on, and that are updated on the copy, with their plurals."""


def read_manifest(content: bytes, *, is_json: bool, namespace: str) -> Manifest:
    """Return a manifest, parsed.

    Args:
        content: Its text.
        is_json: Whether it is JSON, not YAML.
        namespace: The namespace of objects that name none.

    Raises:
        ManifestError: It cannot be parsed, or is too large.
        FlagError: An installed extension cannot be loaded.
    """
    return Manifest(content, is_json=is_json, namespace=namespace)


def rights_to_create(manifest: Manifest) -> tuple[ResourceRight, ...]:
    """Return the rights that its caller needs to create the objects of a manifest, each once.

    For a kind that is not known, that is all that is said, and its plural is not known either.
    """
    places = ((*place, each.namespace) for each in manifest.documents if (place := _kind_of(each)))
    rights = {
        ResourceRight(verb="create", group=group, resource=plural, namespace=namespace): None
        for group, plural, namespace in places
    }
    return tuple(rights)


def _kind_of(document: Document) -> tuple[str, str] | None:
    """Return group and plural of an object; None if its kind is not known."""
    if document.adapter is not None:
        return document.adapter.kind.group, document.adapter.kind.plural
    known = _EDITED.get((document.group, document.kind))
    return None if known is None else (document.group, known)


def list_not_looked_up(facts: ClusterFacts, *, defaulted: bool) -> list[str]:
    """Return what an answer may depend on and nobody was asked about.

    Args:
        facts: What is known.
        defaulted: Whether the manifest is the answer of the API server to a dry run.
    """
    return [each for each in facts.not_looked_up if not (defaulted and each == DEFAULTS)]


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one job of a manifest, or to an object that is none.

    Attributes:
        verdict: What the controllers make of it.
        unit: The unit that it gets, or has; None: none.
        exists: Whether it has that unit already.
        queue: The queue that the unit waits in, or names.
        quota: The quota that it is charged to, or names.
        explanation: Where the unit stands when it has arrived, and all queues rest. None: it starts
            now, has started, or has no unit.
        position: Its place in its queue when it arrives, from 1; 0: it has none.
        starts: Whether it starts now; None if it has no unit, or one that has started or ended, or
            other units start for too long.
        also: The units that start before it, `namespace/name`, in that order.
        victims: The units that it evicts to start.
        changes: What would start it now, if that was asked for, and it does not start.
    """

    verdict: Verdict
    unit: QueueUnit | None = None
    exists: bool = False
    queue: str = ""
    quota: str = ""
    explanation: Explanation | None = None
    position: int = 0
    starts: bool | None = None
    also: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    changes: Changes | None = None


class TryOut:
    """Submits a manifest to a copy of the engine.

    Args:
        engine: A fork; it must not be used afterwards.
        wall: The time.
        namespace: Returns a namespace; None if there is none of this name.
        is_late: Returns whether no more changes are to be tried.
    """

    def __init__(
        self,
        engine: Engine,
        wall: datetime,
        namespace: Callable[[str], Namespace | None],
        is_late: Callable[[], bool] = never_late,
    ) -> None:
        self._engine = engine
        self._wall = wall
        self._is_late = is_late
        self._count = 0
        self.facts = ClusterFacts(
            wall=wall,
            quotas=tuple(engine.objects.of_kind(ElasticQuota)),
            namespace=namespace,
            unit=self._unit,
        )

    def _unit(self, key: str) -> QueueUnit | None:
        record = self._engine.record(key)
        return None if record is None else record.unit

    def submit(self, manifest: Manifest, *, with_changes: bool = False) -> Iterator[Tried]:
        """Yield what happens to its jobs, in the order in which they are applied."""
        known = (each for each in manifest.documents if self._is_known(each))
        updated = {each.number: self._edit(each) for each in known}
        if updated:
            quotas = tuple(self._engine.objects.of_kind(ElasticQuota))
            self.facts = replace(self.facts, quotas=quotas)
        # Lazily: that a unit's name is taken is found in the engine that was told of those before.
        for verdict in manifest.judge(self.facts):
            if verdict.unit is not None:
                unit = self._as_created(verdict.unit)
                self._engine.on_queue_unit(unit)
                yield self._ask(verdict, unit, with_changes=with_changes)
            elif (record := self._engine.record(verdict.existing)) is not None:
                unit = self._update(record, verdict.patch)
                yield self._ask(verdict, unit, with_changes=with_changes)
            else:
                yield Tried(verdict=updated.get(verdict.document.number, verdict))

    def _is_known(self, document: Document) -> bool:
        """Return whether an object is a queue or quota that exists, or a policy that counts."""
        if (document.group, document.kind) not in _EDITED:
            return False
        place = (document.namespace, document.name)
        if document.kind == "QuotaPolicy":
            return document.namespace == self._engine.policies.namespace
        if document.kind == "Queue":
            queue = self._engine.queues.queue(document.name)
            return queue is not None and (queue.metadata.namespace, queue.metadata.name) == place
        kind = ElasticQuota if document.kind == "ElasticQuota" else ElasticQuotaTree
        known = self._engine.objects.of_kind(kind)
        return any((each.metadata.namespace, each.metadata.name) == place for each in known)

    def _edit(self, document: Document) -> Verdict:
        """Apply a queue, quota or policy of the manifest to the engine; return the verdict."""
        given = document.body["metadata"]
        metadata = {key: given[key] for key in ("labels", "annotations") if given.get(key)}
        patch = {"metadata": metadata, "spec": document.body.get("spec", {})}
        edit = Edit(
            kind=document.kind,
            api_version=document.api_version,
            namespace=document.namespace,
            name=document.name,
            patch=patch,
        )
        errors: tuple[FieldError, ...] = ()
        is_new = document.kind == "QuotaPolicy" and not self._engine.policies.find(document.name)
        try:
            apply_edits(self._engine, (edit,), self._wall)
        except EditError as error:
            errors = (FieldError(error.field.removeprefix(f"{PATCH}."), error.text),)
        what = "It is no job" if is_new else "It exists, and is no job"
        said = f"{what}: jobs are tried with it as the manifest has it"
        return Verdict(documents=(document,), reason="NoJob", message=said, errors=errors)

    def _update(self, record: CachedUnit, patch: dict[str, Any]) -> QueueUnit:
        """Apply the unit of a job to the engine; return it."""
        if not patch:
            return record.unit
        unit = msgspec.convert(merged(msgspec.to_builtins(record.unit), patch), QueueUnit)
        replacement(unit, record)(self._engine)
        after = self._engine.record(unit.metadata.key)
        assert after is not None, "the unit was applied"
        return after.unit

    def _ask(self, verdict: Verdict, unit: QueueUnit, *, with_changes: bool) -> Tried:
        """Let all queues decide, and return what becomes of a unit that was applied."""
        engine, wall = self._engine, self._wall
        key = unit.metadata.key
        record = engine.record(key)
        info = None if record is None else record.info
        tried = Tried(
            verdict=verdict,
            unit=unit,
            exists=bool(verdict.existing),
            queue=unit.spec.queue if record is None else record.queue_name,
            quota=read_quota_name(unit.metadata.labels) if info is None else info.quota,
        )
        if tried.exists and (record is None or record.occupies or is_final(unit)):
            return tried
        arrived = self._explain(key)
        tried = replace(tried, position=0 if arrived is None else arrived.position)
        try:
            # It is the engine itself that decides: what starts has its share when the next comes.
            outcome = Trials(engine, key, wall).rested
        except SpentError:
            return replace(tried, explanation=arrived)
        tried = replace(tried, starts=outcome.starts, also=outcome.also, victims=outcome.victims)
        if outcome.starts:
            return tried
        tried = replace(tried, explanation=self._explain(key))
        if not with_changes:
            return tried
        found = find_changes(self._engine.fork(), key, wall, self._is_late)
        return replace(tried, changes=found)

    def _explain(self, key: str) -> Explanation | None:
        reader = self._engine.fork() if needs_fork(self._engine) else self._engine
        return explain(reader, key, self._wall)

    def _as_created(self, body: dict[str, Any]) -> QueueUnit:
        """Return a unit as the API server would return it."""
        unit = msgspec.convert(body, QueueUnit)
        self._count += 1
        meta = replace(
            unit.metadata,
            uid=Uid(f"{unit.metadata.key}/{self._count}"),
            resource_version="1",
            creation_timestamp=rfc3339(self._wall),
        )
        return replace(unit, metadata=meta)
