"""Process 2, ``koord-queue-controllers``: jobs in, QueueUnits out; resumes what was admitted.

Read in this order:

1. ``jobframework``: the contract: what a kind of job must be able to answer.
2. ``extensions``: the adapters, one per kind; ``extension_list``: all of them; ``job_families``:
   what adapters of several kinds share.
3. ``decision``: what to do about one job. Pure.
4. ``reconcile``: reconciles one job: read the caches, decide, execute.
5. ``watches``: the caches, and what else is known of the cluster.
6. ``extension_server``: one per kind: its informer, its keys, which changes need a reconcile.
7. ``reservations``: nodes that are reserved before a job is released; in strict mode only.
8. ``lost_pods``: pods of nodes that are gone or unreachable; only if that is allowed.
9. ``debug_api``: the HTTP API: whether a job is managed, and why.
10. ``manifests``: what would be made of a manifest; the scheduler asks it.
11. ``observed``: the jobs of a cluster where nothing is managed; the scheduler's shadow mode asks
    it.
12. ``configuration``: the settings; ``metrics``; ``wiring``: the only module that knows every part.

Tested by ``tests/queue_controllers``, module by module; against recordings of real operators by
``tests/contracts``, and both programs together by ``tests/simulation`` and ``tests/cluster``.

Not here: which jobs may start (``queue_scheduler``). The two meet only in Kubernetes objects.
"""
