"""The common base of both programs: API objects, exact amounts, and the client of the API server.

Read in this order:

1. ``objects``: the Kubernetes objects as frozen values, one file per kind.
2. ``queue_unit_phases``: the life of a QueueUnit, as one table; ``evictions``: why and how a unit
   gives its quota back.
3. ``well_known_labels``: every label and annotation, with its writers and readers;
   ``quota_names``: which quota and queue they name; ``well_known_kinds``: kinds of jobs by name.
4. ``quantity``, ``resource_list``: "500m" and "2Gi" as exact integers, and vectors of amounts;
   ``resource_names``: deprecated names and their replacements; ``pod_requests``: the requests of
   one pod.
5. ``client``: how a request reaches the API server; ``informer``: how its answers become a cache.
6. ``work_queue``, ``backoff``, ``leader_election`` (with ``lease_lock``), ``leader_warmup``: small
   tools of both programs.
7. ``process``: clocks, the loop that runs steps on a thread, probes, logs; ``metrics``.
8. ``program``: the process around a program's work; ``program_flags``: the common flags;
   ``upstream_flags``: flags that are accepted without effect;
   ``access_review``: who may read metrics and the debug API; ``debug_api``: how that is served.
9. ``crds``: writes the files under crds/ from the types, by ``crd_schema``.
10. ``admission_check_kit``: a controller of admission checks, without a rule.
11. ``fake_api_server``: an API server in memory; ``testing``: that server, the virtual clock and
    builders, for tests and plugin authors.

Not here: any decision about which unit may start (``queue_scheduler``), and any knowledge of a kind
of job other than its name (``queue_controllers``). This package imports neither.
"""
