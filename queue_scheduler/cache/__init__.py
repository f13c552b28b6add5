"""Every unit and its state, and what is charged for it. Pure.

Read in this order:

1. ``unit_state``: the state of one unit, derived from its object.
2. ``unit_demand``: what a unit requests, and what it was granted; ``partial_admission``: the same
   with fewer pods.
3. ``usage``: what is charged for each unit; ``pod_accounting``: which living pods belong to which
   unit; ``expected_ends``: how long a charge is expected to last.
4. ``unit_cache``: all units and their transitions between states; ``admitted_units`` and
   ``units_on_hold``: the units of one state, by queue and quota.
5. ``admission_check_rules``: what follows from the states of a unit's admission checks.

Not here: the order of pending units (``queue_scheduler.queueing``), and whether one fits
(``queue_scheduler.plugins``).
"""
