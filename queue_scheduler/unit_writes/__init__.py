"""What is written into the status of a unit, as merge patches. Pure.

The shells send these patches; `insight.virtual_cluster` applies the same ones in virtual time.

- ``admission_patches``: of a unit that is admitted, or whose admission checks are all Ready.
- ``eviction_patches``: of a unit that is asked to give its quota back, has done so, or returns from
  its backoff.
- ``run_patches``: what the job's side writes, as far as the scheduler reads it.
- ``applied_patches``: the unit after such a patch.

Not here: which moves there are, and their conditions (``shared_api.queue_unit_phases``).

Tested by ``tests/queue_scheduler/unit_writes``.
"""
