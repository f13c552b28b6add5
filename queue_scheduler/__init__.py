"""Process 1, ``koord-queue-scheduler``: decides which pending QueueUnit may start.

Read in this order:

1. ``decision``: the possible decisions, as values that carry their numbers; the reasons of
   refusals, and what is true of each.
2. ``engine``: facts in, decisions out; no thread, lock, clock, network or log.
3. ``cache``: every unit and its state, and what is charged for it.
4. ``preemption``: which units are evicted so that another may start.
5. ``queueing``: which units are pending, and in which order.
   ``reservations``: when units must not run.
6. ``quota``: the quota arithmetic, from scratch; ``quota_cache``: the same from running sums, and
   which units to wake after a change.
7. ``framework``: the contract of plugins; ``plugins``: the built-in ones; ``quota_plugin``: the
   base of plugins with quotas (``required_requests``: what each pod must request).
8. ``cycles``: the threads that feed the engine and carry out its decisions, and the log of what
   it was told and asked.
9. ``unit_controllers``: what follows from one unit's object and the time: requeue, scale up,
   admission checks, time-outs, evictions.
10. ``queue_objects``: Queue objects, created for quotas and kept in step.
11. ``reporting``: metrics, events and conditions; ``refusal_texts``: refusals as text;
    ``debug_api``: the HTTP API of queues, units and quotas.
12. ``setup``: plugins by name, the kinds that are watched for them, and what other packages add to
    the program; ``configuration``: the settings; ``wiring``: the only module that knows every part.

Tested by ``tests/queue_scheduler``, module by module; all together by ``tests/scenarios``,
``tests/simulation`` and ``tests/cluster``.

Not here: what looks ahead or back, and whoever only asks (``queue_insight``). Nor jobs: the
scheduler knows only their units; ``queue_controllers`` turns jobs into units, and resumes them. The
two meet only in Kubernetes objects.
"""
