"""Process 3, ``koord-queue-admission-checks``: asks the autoscaler for nodes before a job starts.

It carries out AdmissionChecks with its `controllerName` and a ProvisioningRequestConfig as their
parameters: for each unit that waits for such a check it makes a ProvisioningRequest, and says what
became of it in the unit's `status.admissionChecks`. It meets the scheduler in these objects alone.

Read in this order:

1. ``check_settings``: the settings in a check and its config, or why they are invalid.
2. ``request_plan``: which pods need nodes, and the objects that ask for them.
3. ``provisioning_decision``: what the autoscaler's conditions mean for the unit. All three are
   pure.
4. ``provisioning_writes``: carries decisions out; ``provisioning_judge``: reads caches, decides,
   writes; the ``Judge`` of ``shared_api.admission_check_kit``, which does all the rest.

Tested by ``tests/queue_admission_checks``, module by module; on a real API server by
``tests/cluster/test_admission_check*.py``.

Not here: which units need a check, and what follows from its state (the scheduler); what the
check's `podSetUpdates` do to a job (``queue_controllers``).
"""
