"""Process 1, ``koord-queue-scheduler``: decides which waiting QueueUnit may start, and says so.

Read in this order:

1. ``decision``: what can be decided, as values that carry their numbers.
2. ``engine``: facts in, decisions out; no thread, lock, clock, network or log.
3. ``unit_registry``: every unit and where it stands (``unit_record``, ``unit_demand``,
   ``under_way``);
   ``bookings``, ``pod_accounting``: what is charged for whom, ``declared_ends``: until when;
   ``held_counts``: who is in no line; ``backfill``: who may pass whom; ``unit_starts``: whether a
   unit may start, and with how many pods (``fewer_pods``).
4. ``queueing`` (what waits, and in which order), ``quota`` (whether it fits): what the
   engine stands on.
5. ``framework``: the contract of plugins; ``plugins``: the ones that come along;
   ``booked_quotas``: what those that keep quotas have in common (``required_requests``).
6. ``shared_engine``, ``event_handlers``, ``queue_worker``, ``dequeue_cycle``,
   ``queue_drains``, ``queue_reconciler`` (``tree_queues``): the shells that feed the engine and
   carry its decisions out. ``unit_looks``: what follows from one unit's object and the time, for
   ``backoff_returns``, ``growth_cycle`` (by ``growth``), ``admission_check_cycle`` (by
   ``admission_checks``), ``node_verdicts`` and ``unit_evictions``; ``eviction_writes``.
7. ``waiting_reporter``, ``queue_status``, ``metrics``, ``notice_events``,
   ``unreadable_objects``: what people see of it in the cluster.
8. ``insight``: refusals in words; ``debug_api``: the window to look in.
9. ``wiring``: the one place where it is all put together; ``configuration``: what can be set;
   ``plugin_loading``, ``plugin_handle``: plugins by name, and what they get; ``quota_sources``:
   the kinds that are watched for them.
10. ``admission_check_controller``: another program, which asks the autoscaler for nodes. It knows
    nothing of the modules above.

Not here: jobs. A unit is all the scheduler knows of one; ``queue_controllers`` turns jobs into
units, and resumes them. The two meet only in Kubernetes objects.
"""
