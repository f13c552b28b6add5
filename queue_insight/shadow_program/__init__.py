"""`koord-queue-scheduler --shadow`: watches the jobs of a cluster, and writes nothing to it.

Read in this order:

1. ``job_watch``: the jobs, as the extensions of the other program read them.
2. ``quota_watch``: quotas, queues and nodes of the cluster, as far as it has them.
3. ``observer``: what is seen of a job -> lines of the record.
4. ``recorder``: the record and the live counterfactual, step by step.
5. ``wiring``: the parts, and the program's work; ``shadow_metrics``.

Not here: the record and its report (``queue_insight.shadow``). Nothing here is imported without
the flag.

Tested by ``tests/queue_insight/shadow_program``.
"""
