"""Writes to units that follow from one unit's object and the time; each is a step over units.

Read in this order:

1. ``unit_reconciler``: the step: read a unit, ask what is due, write it, or come back later.
2. ``requeue``: pending again when the backoff after an eviction is over.
3. ``scale_up``: pods that a running job asks for in addition.
4. ``admission_checks``: what the states of checks lead to.
5. ``node_timeout``: units of strict queues that get no nodes.
6. ``eviction``: evictions of units that no job controller manages.
7. ``pods_elsewhere``: tells of living pods that name another quota than their unit.
8. ``spent_budgets``: tells of spent budgets, and evicts what runs on where they ask for that.
9. ``window_evictions``: evicts what runs as a window of a reservation begins that asks for that.
10. ``queue_drain``: evicts what runs of a queue whose stop policy is HoldAndDrain.
11. ``self_audit``: writes nothing, and compares all units with the caches each minute.
12. ``setup``: puts them together, and follows which checks the cluster has.

Not here: decisions about the order (``queue_scheduler.engine``), and when a unit is due
(``queue_scheduler.engine.deadlines``).

Tested by ``tests/queue_scheduler/unit_controllers``,
``tests/properties/test_shells_and_deadlines.py`` and ``tests/properties/test_admission_checks.py``.
"""
