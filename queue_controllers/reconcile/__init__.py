"""Reconcile one job: read the caches, decide, execute.

- ``reconciler``: the reconcile loop, and what it remembers of a job; ``job_reader``: a job with its
  unit and its pods, as it is decided about, and how these are found.
- ``execute``: one guarded request per action; ``gated_pod_executor``: the same for jobs that are
  only pods.

Not here: what to do (``queue_controllers.decision``).

Tested by ``tests/queue_controllers/reconcile``.
"""
