"""What this queue would have decided, beside another one, or none: the record, and its report.

Read in this order:

1. ``lines``: what the shadow program has seen, line by line; ``folder``: these lines on disk.
2. ``story``: the lines as the truth about each job: when it was submitted, started and ended.
3. ``quota_mapping``: the queue and quota of a job that does not name them as this queue wants it.
4. ``counterfactual``: the same arrivals and run times through the engine, in virtual time.
5. ``numbers``: both beside each other: waits, use, order; ``report``: as JSON, text and a page.
6. ``command``: `koord-queue shadow-report`.

Not here: how a cluster is watched (``queue_insight.shadow_program``).

Tested by ``tests/queue_insight/shadow``.
"""
