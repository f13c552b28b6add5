"""What people see in the cluster of the scheduler's work.

- ``pending_reason``: why a pending unit waits, written into its status.
- ``events``: events on units and queues, and lines of the log.
- ``undecodable_objects``: events and conditions on objects that cannot be read.
- ``metrics``: the Prometheus series.

Not here: the words of a refusal (``queue_scheduler.insight``).
"""
