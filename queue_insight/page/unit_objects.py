"""Which objects belong to a unit, by the engine's copy; of what else it says, none is asked for."""

from __future__ import annotations

from typing import NamedTuple

from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.engine.engine import Engine
from shared_api.debug_api.views import View
from shared_api.objects.queue_unit import ConsumerReference


class KnownPod(View):
    """A pod of a unit that has not ended; `node` is "" without one."""

    name: str
    node: str


class UnitObjects(NamedTuple):
    """Which objects belong to a unit, by the engine's copy.

    Attributes:
        namespace: Of all of them.
        name: Of the unit.
        uid: Of the unit.
        job: What it stands for; None: nothing.
        pods: Those that have not ended, by name.
    """

    namespace: str
    name: str
    uid: str
    job: ConsumerReference | None
    pods: tuple[KnownPod, ...]


def find_objects(shared: EngineReader, namespace: str, name: str) -> UnitObjects | None:
    """Return which objects belong to a unit; None: it is unknown."""
    return shared.ask(_find_objects, f"{namespace}/{name}")


def known_pods(engine: Engine, key: str) -> list[KnownPod]:
    """Return the pods of a unit that have not ended, by name; none if it is unknown."""
    record, pods = engine.record(key), engine.pods
    if record is None:
        return []
    return [
        KnownPod(name=pod.partition("/")[2], node=pods.node_of(pod))
        for pod in sorted(pods.pods_of(record.unit))
    ]


def _find_objects(engine: Engine, key: str) -> UnitObjects | None:
    record = engine.record(key)
    if record is None:
        return None
    meta = record.unit.metadata
    job = record.unit.spec.consumer_ref
    return UnitObjects(meta.namespace, meta.name, meta.uid, job, tuple(known_pods(engine, key)))
