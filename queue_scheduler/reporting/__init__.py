"""What users see of the scheduler's work: conditions, events, logs and metrics.

- ``pending_reason``: why a pending unit waits, written into its status.
- ``events``: events on units and queues, and lines of the log.
- ``undecodable_objects``: events and conditions on objects that cannot be read.
- ``metrics``: the Prometheus series; ``queue_heads``, ``fair_metrics`` and ``unit_progress``: those
  that are read from the engine in another way.

Not here: the message of a refusal (``queue_insight.insight``).

Tested by ``tests/queue_scheduler/reporting``.
"""
