"""The controllers' caches, and what else is known of the cluster.

Read in this order:

1. ``informers``: creates the informers, also of kinds that come and go, and reports objects that
   cannot be decoded; ``kind_election``: which extension serves a kind.
2. ``job_trimming``: what is kept of a job. Which changes of it need a reconcile is said in
   ``queue_controllers.extension_server``.
3. ``pod_usage``: which pods belong to which job; ``pod_groups``: jobs that are only pods;
   ``job_sizes``: how many pods they have, where another object says it.
4. ``owner_lookup``: owners of jobs; ``related_objects``, ``event_lookup``: what other objects and
   events say about a job.
5. ``cluster_context``: quotas, namespaces, priority classes; ``kueue_presence``: whether Kueue is
   installed; ``admission_caches``: what the API server applies when it creates pods;
   ``pod_preview``: the API server's answer to a dry run; ``preview_changes``: when to ask again.

Not here: what a change leads to (``queue_controllers.decision``).

Tested by ``tests/queue_controllers/watches``.
"""
