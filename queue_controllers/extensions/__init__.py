"""The adapters, one per kind of job: facts about that kind only. Pure, independent of each other.

Each answers the questions of ``queue_controllers.jobframework.generic_job``: is it suspended, what
does it need, has it finished. A good first one to read is ``batch_job``. What adapters share are
values and functions of ``queue_controllers.job_families``, such as the field `suspend` of
``suspend_field``: a class names each method that it takes from one. Only kinds that are made of
pods have a base, ``GatedPods``. ``declared_kind`` serves kinds that the configuration declares.

Not here: when to suspend, resume or end (``queue_controllers.decision.decide``), and the list of
adapters (``queue_controllers.extension_list``).

Tested by ``tests/queue_controllers/extensions``.
"""
