"""Queue objects in the cluster, and the status of QuotaPolicies and QueueReservations.

- ``queue_reconciler``: a Queue for every quota: made, kept in step, deleted with it;
  ``tree_queues``: the same for the nodes of an ElasticQuotaTree.
- ``queue_status``: counts and the first positions, written into the status of queues;
  ``quota_policy_status`` and ``queue_reservation_status``: what is in force, into those of policies
  and reservations; ``status_writer``: when.

Not here: what a queue does with its units (``queue_scheduler.queueing``).

Tested by ``tests/queue_scheduler/queue_objects``.
"""
