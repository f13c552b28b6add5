"""What is the same for every kind of job: read, decide, act, each in a place of its own.

Read in this order:

1. ``generic_job``: what a kind of job must be able to answer, and what it may.
2. ``job_machine``: where a job stands, one machine for every kind; ``managed``: which jobs are
   the queue's business at all; ``job_annotations``: what its owner asks for.
3. ``decide``: a ``job_view`` (job, unit, pods, ``job_settings``, the time) -> a list of
   ``actions``; pure. ``release`` is its part for jobs that may run, ``job_progress`` that for those
   that do (``execution_time``: for how long they may), ``eviction`` that for those that must give
   their place back, ``backoff_limit`` and ``deactivation`` that for those that do not return by
   themselves, ``contest`` that for those that somebody else keeps turning on; ``nudge`` that for
   those that their operator has forgotten, ``pods_not_ready`` that for those whose pods do not come
   or have no node (``pod_scheduling``); ``obstacle``: what is in the way of one until somebody
   acts.
4. ``queue_unit_builder``: job -> QueueUnit, with the part of its ``pod_template`` that a unit
   carries, as the API server will make it (``pod_admission``, ``previewed_pod``), and its labels
   and annotations (``unit_metadata``, ``label_precedence``); ``unit_status``: what to write into
   one; ``pod_set_updates``: what admission checks change in the templates, and ``template_updates``
   how that is taken off again; ``fewer_pods``: jobs that run with fewer pods than they want; pure.
   ``suspend_switch``, ``job_conditions``, ``replica_roles``, ``replicated_jobs``, ``ray_pods`` and
   ``spark_pods`` are for adapters: what several kinds have in common, or arithmetic of its own.
5. ``execute``: one function per action.
6. ``reconciler``: one ``step()``: look at a key (``job_lookup``), decide, execute.

Not here: any kind of job. ``queue_controllers.extension_list`` knows those that come along
(``queue_controllers.extensions``); others are found by the entry point group
``koord_queue.job_extensions``.
"""
