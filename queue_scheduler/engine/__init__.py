"""The engine: facts in, decisions out. Pure.

Read in this order:

1. ``engine``: the facts it is told, the questions it is asked, and what becomes of a decision.
2. ``admission``: whether the unit whose turn it is may start, and with how many pods.
3. ``backfill``: which units may start before one that does not fit yet.
4. ``growth``: running jobs that ask for more pods.
5. ``queue_state``: which policy and options are in force in each queue.
6. ``wake_up``: which refused units are asked again after a change, and which queue has its turn.
7. ``deadlines``: what time alone changes, and when; for the shells, and for a forecast on a fork.
   It stands on ``check_facts`` (admission checks of a booked unit) and ``unmanaged_units`` (units
   without a job side).

Not here: what is known of a unit (``queue_scheduler.cache``), and who may be evicted
(``queue_scheduler.preemption``).
"""
