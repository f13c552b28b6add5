"""The parts that every API object has: metadata, owners, conditions.

The structs of this package hold only the fields that the two programs read. They are
decoded from the API server and never written back (unknown fields would be lost); writes
are patches. They are frozen, so threads may share them, and not tracked by the garbage
collector (`gc=False`): they are trees, never cycles, and there are hundreds of thousands.

Times stay the text that the API server sent ("2026-11-01T10:00:00Z"): RFC 3339 in UTC with
fixed width sorts as text, and most are never used.
"""

from __future__ import annotations

from typing import Final, NewType

import msgspec

Uid = NewType("Uid", str)
Timestamp = NewType("Timestamp", str)
"""RFC 3339 in UTC as the API server writes it; "" where absent."""

APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation of `kubectl apply`."""

NO_UID = Uid("")
NO_TIME = Timestamp("")


class WireStruct(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True
):
    """Base of all API structs: frozen, keyword-only, camelCase on the wire."""


class OwnerReference(WireStruct, frozen=True):
    """One entry of `metadata.ownerReferences`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: Uid = NO_UID
    controller: bool | None = None


class ObjectMeta(WireStruct, frozen=True):
    """`metadata`, as far as it is read."""

    name: str = ""
    namespace: str = ""
    uid: Uid = NO_UID
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Timestamp = NO_TIME
    deletion_timestamp: Timestamp | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Drop the manifest that was applied last: it has what this program never reads.

        Often it is the larger half of an object, and it has the environment values of a pod.
        """
        if APPLIED in self.annotations:
            del self.annotations[APPLIED]

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller_owner(self) -> OwnerReference | None:
        """The owner that controls the object, or None."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    def identity(self) -> ObjectMeta:
        """Return its names, uid, version and generation alone: what is kept of many objects."""
        return ObjectMeta(
            name=self.name,
            namespace=self.namespace,
            uid=self.uid,
            resource_version=self.resource_version,
            generation=self.generation,
        )


class Condition(WireStruct, frozen=True):
    """A `metav1.Condition`."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None
    observed_generation: int | None = None


def find_condition(conditions: tuple[Condition, ...], condition_type: str) -> Condition | None:
    """Return the condition of this type, or None."""
    # A generator would be slower: conditions are looked up some fifty times in the life of a job.
    for condition in conditions:
        if condition.type == condition_type:
            return condition
    return None


def is_condition_true(conditions: tuple[Condition, ...], condition_type: str) -> bool:
    """Return whether there is a condition of this type with status "True"."""
    condition = find_condition(conditions, condition_type)
    return condition is not None and condition.status == "True"
