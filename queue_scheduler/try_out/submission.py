"""Units of a manifest on a copy of the engine: where each stands, whether it starts, why not. Pure.

The jobs of a manifest are created one after the other, and the queue comes to rest in between. So
what starts first takes its share before the next one is decided.
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
    Manifest,
    ManifestError,
    Verdict,
)
from queue_scheduler.engine.engine import Engine
from queue_scheduler.insight.changes import Changes, find_changes
from queue_scheduler.insight.explain import Explanation, explain, needs_fork
from queue_scheduler.insight.trials import SpentError, Trials
from shared_api.access_review import ResourceRight
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.queue_unit import QueueUnit
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import read_quota_name

UNREADABLE: Final = ManifestError
"""Raised for manifests that cannot be read, or are too large."""


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

    Of a kind that is not known nothing is said but that, and its plural is not known either.
    """
    rights = {
        ResourceRight(
            verb="create",
            group=each.adapter.kind.group,
            resource=each.adapter.kind.plural,
            namespace=each.namespace,
        ): None
        for each in manifest.documents
        if each.adapter is not None
    }
    return tuple(rights)


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
        unit: The unit that it gets; None: none.
        queue: The queue that the unit waits in, or names.
        quota: The quota that it is charged to, or names.
        explanation: Where the unit stands when it has arrived, and all queues rest. None: it starts
            now, or has no unit.
        position: Its place in its queue when it arrives, from 1; 0: it has none.
        starts: Whether it starts now; None: it has no unit, or other units start for too long.
        also: The units that start before it, `namespace/name`, in that order.
        victims: The units that it evicts to start.
        changes: What would start it now, if that was asked for, and it does not start.
    """

    verdict: Verdict
    unit: QueueUnit | None = None
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
        namespace: Returns a namespace; None: there is none of this name.
    """

    def __init__(
        self, engine: Engine, wall: datetime, namespace: Callable[[str], Namespace | None]
    ) -> None:
        self._engine = engine
        self._wall = wall
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
        """Yield what happens to its jobs, in the order in which they are created."""
        # Lazily: that a unit's name is taken is found in the engine that was told of those before.
        for verdict in manifest.judge(self.facts):
            if verdict.unit is None:
                yield Tried(verdict=verdict)
            else:
                yield self._create(verdict, verdict.unit, with_changes=with_changes)

    def _create(self, verdict: Verdict, body: dict[str, Any], *, with_changes: bool) -> Tried:
        """Tell the engine of a new unit, let all queues decide, and ask about it."""
        engine, wall = self._engine, self._wall
        unit = self._as_created(body)
        key = unit.metadata.key
        engine.on_queue_unit(unit)
        arrived = self._explain(key)
        record = engine.record(key)
        info = None if record is None else record.info
        tried = Tried(
            verdict=verdict,
            unit=unit,
            queue=unit.spec.queue if record is None else record.queue_name,
            quota=read_quota_name(unit.metadata.labels) if info is None else info.quota,
            position=0 if arrived is None else arrived.position,
        )
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
        return replace(tried, changes=find_changes(self._engine.fork(), key, wall))

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
