"""What another queue's objects become here: `koord-queue import`.

1. `kueue_objects`: Kueue's objects as values, v1beta1 and v1beta2.
2. `plan`: what is to be written, and what cannot be carried over.
3. `kueue_quotas`: ClusterQueues and Cohorts as ElasticQuotas; `kueue_queues`: as Queues;
   `kueue_bindings`: LocalQueues, flavors and priority classes; `kueue_plan`: all together.
4. `kueue_jobs`: the labels of jobs that Kueue has released, or holds.
5. `kueue_source`: reads all that from a cluster or from files; `writing`: writes a plan.

The first four are pure.

Tested by ``tests/koord_queue/importing``.
"""
