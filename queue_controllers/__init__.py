"""Process 2, ``koord-queue-controllers``: jobs in, QueueUnits out; resumes what was admitted.

Read in this order:

1. ``jobframework``: what is the same for every kind of job.
2. ``extensions``: the adapters, one per kind; ``extension_list``: all of them.
3. ``extension_server``: one per kind: its informers, its keys, its threads; ``job_news``: which
   changes are worth a look.
4. ``pod_usage``: whose pods are whose; ``slim_jobs``: how little of jobs is kept;
   ``owner_lookup``: whose owners are whose; ``other_objects``, ``event_lookup``: what other objects
   and events say about jobs; ``surroundings``: quotas, namespaces, priority classes;
   ``admission_caches``: what the API server goes by as it creates pods; ``pod_preview``: what it
   says itself that it makes of them, asked anew by ``preview_news``; ``kueue_presence``: whether
   Kueue is there.
5. ``reservations``: nodes that are asked for before a job is released; in strict mode only.
6. ``job_events``: what people are told of objects that can not be read; ``metrics``.
7. ``debug_api``: the window to look in: whether a job is managed, and why.
8. ``wiring``: the one place where it is all put together; ``configuration``: what can be set.

Not here: who may start (``queue_scheduler``). The two meet only in Kubernetes objects.
"""
