"""The adapters, one per kind of job: facts about that kind only. Pure, strangers to each other.

Each answers the questions of ``queue_controllers.jobframework.generic_job``: is it suspended, what
does it need, has it finished. A good first one to read is ``batch_job``. The switch of kinds with a
field `suspend` comes from ``queue_controllers.job_families.suspend_field``, and what families of
kinds share from the modules beside it.

Not here: when to suspend, resume or end (``queue_controllers.decision.decide``), and the list
of adapters (``queue_controllers.extension_list``).
"""
