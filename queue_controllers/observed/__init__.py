"""The jobs of a cluster in which this program manages nothing: what they ask for, and what they do.

Read in this order:

1. ``job_reading``: a job and its pods -> the unit that a reconcile would create, and the truth:
   when it was submitted, since when it has had a node, when it ended.
2. ``pod_jobs``: which pods are jobs by themselves, or groups that are.
3. ``job_watch``: the caches, and which jobs have changed.

The scheduler's shadow mode imports this package, and no other of this program. Nothing is written.

Tested by ``tests/queue_controllers/observed``.
"""
