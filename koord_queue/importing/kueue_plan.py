"""All of Kueue's objects as a plan. Pure."""

from __future__ import annotations

from koord_queue.importing.kueue_bindings import plan_bindings, plan_flavors, plan_priorities
from koord_queue.importing.kueue_fair_shares import plan_fair_shares
from koord_queue.importing.kueue_objects import KueueObjects
from koord_queue.importing.kueue_queues import plan_queues
from koord_queue.importing.kueue_quotas import QuotaTree
from koord_queue.importing.plan import Plan


def plan_import(objects: KueueObjects, namespace: str) -> Plan:
    """Return what an import of Kueue's objects writes.

    Queues come before quotas: the scheduler makes a queue of its own for a quota without one.

    Args:
        objects: Kueue's.
        namespace: The namespace of the installation; queues and quotas are created there.

    Raises:
        CommandError: An amount cannot be read, or the cohorts form a cycle.
    """
    quotas = QuotaTree(objects, namespace).plan()
    return (
        plan_priorities(objects)
        + plan_queues(objects, namespace)
        + quotas
        + plan_fair_shares(objects, namespace, quotas.quotas)
        + plan_bindings(objects)
        + plan_flavors(objects)
    )
