"""The engine: takes facts, returns decisions. Pure.

Read in this order:

1. ``engine``: the facts it takes, what becomes of a decision, and its parts, which answer
   questions; ``unit_questions``: those about a unit that take several parts.
2. ``admission``: whether the next unit may start, and with how many pods.
3. ``backfill``: which units may start before one that does not fit yet.
4. ``growth``: running jobs that ask for more pods.
5. ``queue_state``: which policy and options are in force in each queue.
6. ``wake_up``: which refused units are asked again after a change, and which queue is next.
7. ``deadlines``: what time alone changes, and when; for the shells, and for a forecast on a fork.
   It builds on ``check_facts`` (admission checks of an admitted unit) and ``unmanaged_units``
   (units without a controller for their job).
8. ``limit_changes``: which limits of users and groups quotas have. ``budget_changes``: which
   budgets; ``overspent_budgets``: which of them are spent, and what is evicted for that.
   ``window_changes``: when units must not run; ``evicting_windows``: what is evicted for that;
   ``reservation_questions``: what runs into that, and what waits for it.
   ``account_restore``: what was kept of accounts, by the leader before.
9. ``drained_queues``: which admitted units are evicted since their queue is drained.
10. ``audit``: what the engine keeps, compared with the objects, and placed again where it differs.
11. ``settings``: what an engine is built from, beside its plugins.

Not here: what is known of a unit (``queue_scheduler.cache``), and which units may be evicted
(``queue_scheduler.preemption``).

Tested by ``tests/queue_scheduler/engine``, ``tests/properties/test_engine_properties.py`` and
``tests/properties/test_engine_with_quotas.py``.
"""
