"""Reservation (`scheduling.koordinator.sh/v1alpha1`): room on a node, kept for pods to come.

Cluster-scoped, created by a client that wants room, scheduled by koord-scheduler as if it were a
pod. Its phases: Pending, Available (it has its node), Succeeded (its pod has taken it, with
`allocateOnce`), Failed (its time is over).

Source: koordinator-sh/koordinator v1.8.0, apis/scheduling/v1alpha1/reservation_types.go
"""

from __future__ import annotations

from typing import Final

from shared_api.objects.meta import Condition, ObjectMeta, WireStruct

AVAILABLE: Final = "Available"
FAILED: Final = "Failed"
"""Of `status.phase`."""

SCHEDULED: Final = "Scheduled"
PREEMPTED: Final = "Preempted"
"""Types of conditions. Scheduled=False with Preempted=True: others are being moved out for it."""


class ReservationStatus(WireStruct, frozen=True):
    """`status`, koord-scheduler's to write."""

    phase: str = ""
    node_name: str = ""
    conditions: tuple[Condition, ...] = ()


class Reservation(WireStruct, frozen=True):
    """A reservation, without what it asks for: that is only written here."""

    metadata: ObjectMeta = ObjectMeta()
    status: ReservationStatus = ReservationStatus()
