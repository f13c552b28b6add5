"""Every unit and its state, and what is charged for it. Pure.

Read in this order:

1. ``unit_state``: the state of one unit, judged from its object.
2. ``unit_demand``: what a unit asks for, and what it was granted; ``partial_admission``: the same
   with fewer pods.
3. ``usage``: what is charged for each unit; ``unit_charges``: the same by its record;
   ``expected_ends``: until when a charge is expected to last; ``declared_terms``: the same for
   budgets.
   ``known_pods``: all pods. ``pod_accounting``: which living pods are whose, by ``unit_owners``;
   ``moved_pods``: those that name another quota; ``living_pods``: what lives, and what will;
   ``held_pods``: those at the queue's gate, which claim a share (``claims``); ``untried_pods``:
   those that wait for a scheduler.
4. ``record_builder``: the record that follows from a unit's object.
5. ``unit_cache``: all units, moved from state to state; ``admitted_units``, ``units_on_hold`` and
   ``gone_units``: those of one state; ``unit_repair``: placed again, whatever is kept of one;
   ``recalled_units``: what another process knew of them; ``known_units``: what is asked about all.
6. ``admission_check_rules``: what the states of a unit's admission checks add up to.

Not here: the order of pending units (``queue_scheduler.queueing``), and whether one fits
(``queue_scheduler.plugins``).

Tested by ``tests/queue_scheduler/cache``, ``tests/properties/test_living_charges.py`` and
``tests/properties/test_partial_starts.py``.
"""
