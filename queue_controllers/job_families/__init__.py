"""What adapters of several kinds share. Pure.

- ``suspend_field``: kinds with a field `suspend`; ``job_conditions``: what conditions say alike.
- ``kubeflow_replicas``: pods by role, as in the group kubeflow.org.
- ``jobset_replicas``: JobSets, and TrainJobs through them.
- ``ray``, ``spark``: the pods that their specs ask for.
- ``gated_pods``: jobs that are only pods, held by scheduling gates.

Not here: one kind alone (``queue_controllers.extensions``).

Tested by ``tests/queue_controllers/job_families``.
"""
