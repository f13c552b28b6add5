"""The contract of job kinds: what an adapter implements, and what it builds on. Pure.

- ``generic_job``: what a kind of job must be able to answer, and what it may.
- ``pod_template``: the part of a pod template that a unit carries; ``pod_scheduling``: what a pod's
  status says about its node; ``pod_set_names``: names and counts of pod sets.
- ``template_updates``, ``list_patches``: changes of pod templates, and how they are undone.
- ``partial_parallelism``: jobs that run with fewer pods than they want.

Not here: any kind of job. ``queue_controllers.extension_list`` knows the built-in ones
(``queue_controllers.extensions``); others are found by the entry point group
``koord_queue.job_extensions``. What several kinds share is in ``queue_controllers.job_families``.

Tested by ``tests/queue_controllers/jobframework``.
"""
