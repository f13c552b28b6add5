"""Decide what to do about one job: takes all that is known of it, returns a list of actions. Pure.

Read in this order:

1. ``decide``: a ``job_view`` (job, unit, pods, ``job_settings``, the time) -> ``actions``.
2. ``job_ownership``: which jobs are managed at all, ``owners``: whether another job has made it;
   ``job_state``: the states of a job, the same for every kind; ``job_annotations``: what its user
   asks for.
3. ``queue_unit_builder``: job -> QueueUnit, with its pods as the API server will create them
   (``pod_admission``, ``previewed_pod``); ``grants``: what it was admitted with, beside what the
   job asks for; ``unit_status_patches``: what is written into its status; ``pod_stamps``: what is
   written on the job's pod templates.
4. ``release``: an admitted job is resumed, with what its checks ask for (``pod_set_updates``);
   ``gates``: the same for pods that are held by gates.
5. ``running``: what a released job does, from the release until its end (``execution_time``,
   ``pods_not_ready``); ``adoption``: a job that ran before it was queued.
6. ``eviction``: a job gives its quota back; ``deactivation``: a unit that is not requeued by
   itself; ``suspend_conflict``: a job that is resumed against the queue.
7. ``pending``: what a job waits for; ``job_warnings``: mistakes that its user should know of.

Not here: reading and writing (``queue_controllers.reconcile``).
"""
