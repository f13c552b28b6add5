"""Process 1, ``koord-queue-scheduler``: decides which waiting QueueUnit may start, and says so.

Read in this order:

1. ``decision``: what can be decided, as values that carry their numbers.
2. ``engine``: facts in, decisions out; no thread, lock, clock, network or log.
3. ``unit_registry``: every unit and where it stands (``unit_record``, ``unit_demand``);
   ``bookings``, ``pod_accounting``: what is charged for whom; ``held_counts``: who is in no line.
4. ``queueing`` (what waits, and in which order), ``quota`` (whether it fits): what the
   engine stands on.
5. ``framework``: the contract of plugins; ``plugins``: the ones that come along.
6. ``shared_engine``, ``event_handlers``, ``queue_worker``, ``dequeue_cycle``,
   ``backoff_returns``, ``queue_reconciler``: the shells that feed the engine and carry its
   decisions out.
7. ``waiting_reporter``, ``queue_status``, ``metrics``, ``notice_events``,
   ``unreadable_objects``: what people see of it in the cluster.
8. ``insight``: refusals in words; ``debug_api``: the window to look in.
9. ``wiring``: the one place where it is all put together; ``configuration``: what can be set;
   ``plugin_loading``, ``plugin_handle``: plugins by name, and what they get.

Not here: jobs. A unit is all the scheduler knows of one; ``queue_controllers`` turns jobs into
units, and resumes them. The two meet only in Kubernetes objects.
"""
