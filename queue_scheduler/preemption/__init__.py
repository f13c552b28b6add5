"""Which units are evicted so that another may start. Pure.

Read in this order:

1. ``victim_selection``: the smallest set of victims for one unit.
2. ``candidates``: the units that may be evicted for it, by the rules of queues and quotas;
   ``borrowers``: the order of those that a quota reclaims from; ``protection``: which units are
   not evicted, and until when; ``found_victims``: the result of a search.
3. ``preemption_rounds``: one round at a time among units that compete, and the room that is kept
   for the preemptor.
4. ``nomination``: which unit room is kept for, read off the objects, so that it survives a restart.
5. ``blocked_classes``: classes that wait for a round to end, and when each is asked again.
6. ``eviction_guards``: what keeps a unit from evicting others for a time; ``eviction_rates``: how
   many units may be evicted in an hour.

Not here: the writes (``queue_scheduler.cycles.preemption_cycle``).

Tested by ``tests/queue_scheduler/preemption``, ``tests/properties/test_engine_preemption.py`` and
``tests/properties/test_preemption_rest.py``.
"""
