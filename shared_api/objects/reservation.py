"""Reservation (`scheduling.koordinator.sh/v1alpha1`): capacity of a node reserved for later pods.

It is cluster-scoped, created by a client, and scheduled by koord-scheduler like a pod. Its phases:
Pending, Available (it has a node), Succeeded (its pod uses it, with `allocateOnce`), Failed (it has
expired).

Source: koordinator-sh/koordinator v1.8.0, apis/scheduling/v1alpha1/reservation_types.go
"""

from __future__ import annotations

from typing import Final

from shared_api.objects.meta import Condition, ObjectMeta, WireStruct

AVAILABLE: Final = "Available"
FAILED: Final = "Failed"
"""Value of `status.phase`."""

SCHEDULED: Final = "Scheduled"
PREEMPTED: Final = "Preempted"
"""Types of conditions. Scheduled=False with Preempted=True: pods are being evicted for it."""


class ReservationStatus(WireStruct, frozen=True):
    """`status`, written by koord-scheduler."""

    phase: str = ""
    node_name: str = ""
    conditions: tuple[Condition, ...] = ()


class Reservation(WireStruct, frozen=True):
    """A reservation, without its requests, which are only written."""

    metadata: ObjectMeta = ObjectMeta()
    status: ReservationStatus = ReservationStatus()
