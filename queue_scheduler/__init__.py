"""Process 1, ``koord-queue-scheduler``: decides which pending QueueUnit may start.

Read in this order:

1. ``decision``: the possible decisions, as values that carry their numbers; ``reason_traits``: what
   is true of each reason for a refusal; ``refusal_texts``: refusals in words.
2. ``engine``: facts in, decisions out; no thread, lock, clock, network or log.
3. ``cache``: every unit and its state, and what is charged for it.
4. ``preemption``: which units are evicted so that another may start.
5. ``queueing``: which units are pending, and in which order.
6. ``quota``: the quota arithmetic, from scratch; ``quota_cache``: the same from running sums, and
   which units to wake after a change.
7. ``framework``: the contract of plugins; ``plugins``: the built-in ones; ``quota_plugin``: the
   base of plugins with quotas (``required_requests``: what each pod must request).
8. ``cycles``: the threads that feed the engine and carry out its decisions; ``record``: what the
   engine was told and asked, to play it again.
9. ``unit_controllers``: what follows from one unit's object and the time: requeue, scale up,
   admission checks, time-outs, evictions.
10. ``queue_objects``: Queue objects, created for quotas and kept in step.
11. ``reporting``: metrics, events and conditions; ``debug_api``: the HTTP API, which shows the
    state. ``insight_api`` adds what is asked of copies of the engine: ``insight``, why a unit
    waits; ``what_if``, what edits would change; ``forecast``, when units start; ``try_out``, what
    becomes of a manifest.
12. ``setup``: plugins by name, and the kinds that are watched for them; ``configuration``: the
    settings; ``wiring``: the only module that knows every part.
13. ``insight_program``: another program, which answers what takes long; ``insight_feed`` sends it
    what the engine is told.
14. ``shadow_program``: `--shadow`, which watches a cluster of other queues; ``shadow``: its record,
    and what this queue would have done.
15. ``admission_check_controller``: another program, which asks the autoscaler for nodes. It knows
    nothing of the modules above.

Not here: jobs. The scheduler knows only their units; ``queue_controllers`` turns jobs into
units, and resumes them. The two meet only in Kubernetes objects; ``try_out`` and
``shadow_program`` alone use the other program's code, to build units that nothing creates.
"""
