"""Reconcile one job: read the caches, decide, execute.

- ``reconciler``: the reconcile loop, and what it remembers of a job; ``job_reader``: a job, as it
  is decided about; ``job_lookup``: what is known of one key.
- ``execute``: one guarded request per action; ``gated_pod_executor``: the same for jobs that are
  only pods.

Not here: what to do (``queue_controllers.decision``).
"""
