"""Which objects belong to a unit, by the engine's copy; of what else it says, none is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from queue_scheduler.cycles.engine_reader import EngineReader
from queue_scheduler.engine.engine import Engine
from shared_api.objects.queue_unit import ConsumerReference

BATCH: Final = 500
"""Pods whose nodes are read in one hold of the engine's lock: a unit may have tens of thousands."""


class KnownPod(NamedTuple):
    """A pod of a unit that has not ended; `node` is "" without one."""

    name: str
    node: str


class UnitObjects(NamedTuple):
    """Which objects belong to a unit, by the engine's copy.

    Attributes:
        namespace: The namespace of all of them.
        name: The name of the unit.
        uid: The uid of the unit.
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
    key = f"{namespace}/{name}"
    record = shared.ask(Engine.record, key)
    if record is None:
        return None
    meta = record.unit.metadata
    pods = locate_pods(shared, list_pods(shared, key))
    return UnitObjects(meta.namespace, meta.name, meta.uid, record.unit.spec.consumer_ref, pods)


def list_pods(shared: EngineReader, key: str) -> list[str]:
    """Return the keys of the pods of a unit that have not ended, sorted; none if it is unknown."""
    return sorted(shared.ask(_keys_of_pods, key))


def locate_pods(shared: EngineReader, keys: Sequence[str]) -> tuple[KnownPod, ...]:
    """Return pods by their keys, with their nodes, read in batches."""
    return tuple(
        KnownPod(pod.partition("/")[2], node)
        for start in range(0, len(keys), BATCH)
        for pod, node in shared.ask(_nodes_of, keys[start : start + BATCH])
    )


def _keys_of_pods(engine: Engine, key: str) -> list[str]:
    record = engine.record(key)
    return [] if record is None else engine.pods.pods_of(record.unit)


def _nodes_of(engine: Engine, keys: Iterable[str]) -> list[tuple[str, str]]:
    return [(key, engine.pods.node_of(key)) for key in keys]
