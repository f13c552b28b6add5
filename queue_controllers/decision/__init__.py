"""Decide what to do about one job: takes all that is known of it, returns a list of actions. Pure.

A job's life, one file for each part of it:

1. ``decide``: which part a job is in. It takes a ``job_view`` (job, unit, pods, ``job_settings``,
   the time) and returns ``actions``. A new job is suspended, and gets a unit.
2. ``queue_unit_builder``: job -> QueueUnit, and how the unit follows its job.
3. ``pending``: what a job waits for that is not admitted, and what holds it back until then.
4. ``release``: an admitted job is resumed, with what its checks ask for. ``pod_stamps``: what is
   written on its pod templates.
5. ``running``: what a released job does, until its end; ``pods_not_ready``: why its pods do not
   run.
6. ``eviction``: a job gives its quota back, and is requeued or deactivated.

What these parts ask:

- ``job_ownership``: is the job managed at all; ``owners``: has another job made it.
- ``job_state``: is it held, starting, running, stopping; the same for every kind.
- ``adoption``: did it run before it was queued.
- ``job_marks``: how do the chart's policies know that it is held.
- ``grants``: what was it admitted with, beside what it asks for now; ``held_pods``: which of its
  pods that covers.
- ``job_annotations``: what does its user ask for; ``job_warnings``: mistakes to report.
- ``pod_admission``, ``previewed_pod``: what does the API server make of its pods;
  ``pod_validation``: what no API server accepts.
- ``unit_status_patches``: how a unit's phase and conditions are written.

Not here: reading and writing (``queue_controllers.reconcile``).

Tested by ``tests/queue_controllers/decision`` and ``tests/properties/test_job_decisions.py``.
"""
