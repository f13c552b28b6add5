"""Quotas, their policies, queues, nodes and places from a file that a user gives."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from queue_insight.replay.jobs import TraceError
from queue_insight.replay.quota_files import find_problem, read_documents
from queue_insight.shadow.counterfactual import KINDS, convert_object
from queue_insight.shadow.quota_mapping import QuotaMapping
from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.quota_policy import QuotaPolicy

PLACES: Final = "ShadowPlaces"
LOCAL_QUEUE: Final = "LocalQueue"
PRIORITY_CLASSES: Final = ("WorkloadPriorityClass", "PriorityClass")
LEFT_OUT: Final = frozenset({"Namespace"})
"""What an import from Kueue writes as well, and nothing here reads."""
LOOK: Final = "docs/shadow.md has an example"


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says.

    Attributes:
        bodies: The objects, as JSON values, in the order of the file; each has a name and a uid.
        places: The quotas of jobs that name none; None if it has nothing about that.
    """

    bodies: tuple[dict[str, Any], ...] = ()
    places: QuotaMapping | None = None


def read_given(path: Path) -> Given:
    """Return what a file says.

    Raises:
        TraceError: It cannot be read, or has another kind, or an object that is wrong.
    """
    bodies: list[dict[str, Any]] = []
    mappings: list[QuotaMapping] = []
    for place, body in read_documents(path):
        kind = body.get("kind")
        try:
            if kind == PLACES:
                own = {key: value for key, value in body.items() if key not in _OF_OBJECTS}
                mappings.append(msgspec.convert(own, QuotaMapping))
            elif kind == LOCAL_QUEUE:
                mappings.insert(0, _place_of(msgspec.convert(body, _LocalQueue)))
            elif kind in PRIORITY_CLASSES:
                mappings.insert(0, _priority_of(msgspec.convert(body, PriorityClass)))
            elif kind in KINDS:
                bodies.append(_plain(place, body))
            elif kind not in LEFT_OUT:
                known = ", ".join((*KINDS, PLACES, LOCAL_QUEUE, *PRIORITY_CLASSES))
                raise TraceError(f"{place}: kind is {kind!r}, want one of {known}; {LOOK}")
        except msgspec.ValidationError as error:
            raise TraceError(f"{place}: {error}; {LOOK}") from error
    return Given(bodies=tuple(bodies), places=_join(mappings) if mappings else None)


class _LocalQueueSpec(WireStruct, frozen=True):
    """`spec` of a LocalQueue, as far as it is read."""

    cluster_queue: str = ""


class _LocalQueue(WireStruct, frozen=True):
    """A LocalQueue of Kueue: its ClusterQueue is the quota of that name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _LocalQueueSpec = _LocalQueueSpec()


def _place_of(queue: _LocalQueue) -> QuotaMapping:
    return QuotaMapping(kueue_queues={queue.metadata.key: queue.spec.cluster_queue})


def _priority_of(given: PriorityClass) -> QuotaMapping:
    return QuotaMapping(priorities={given.metadata.name: given.value})


def _join(mappings: Iterable[QuotaMapping]) -> QuotaMapping:
    """Return all of these as one; the later ones count."""
    queues: dict[str, str] = {}
    namespaces: dict[str, str] = {}
    priorities: dict[str, int] = {}
    for each in mappings:
        queues |= each.kueue_queues
        namespaces |= each.namespaces
        priorities |= each.priorities
    return QuotaMapping(kueue_queues=queues, namespaces=namespaces, priorities=priorities)


_OF_OBJECTS: Final = frozenset({"kind", "apiVersion", "metadata"})


def _plain(place: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a record has it: with a uid, which a file written by hand lacks."""
    found = convert_object(body)
    if not found.metadata.name:
        raise TraceError(f"{place}: it has no metadata.name; {LOOK}")
    if isinstance(found, QuotaPolicy) and (problem := find_problem(found)):
        raise TraceError(f"{place}: {problem}; {LOOK}")
    plain: dict[str, Any] = msgspec.to_builtins(found)
    if not found.metadata.uid:
        plain["metadata"]["uid"] = f"{body['kind']}/{found.metadata.key}"
    return {"kind": body["kind"], **plain}
