"""What both programs stand on: the API objects, exact amounts, and the path to the API server.

Read in this order:

1. ``objects``: the Kubernetes objects as frozen values, one file per kind.
2. ``queue_unit_phases``: the life of a QueueUnit, as one table; ``evictions``: why a unit gives its
   quota back, and until when; ``waiting_reasons``: which reasons of a pending unit need action;
   ``placement``: which quota an admission is charged to.
3. ``well_known_labels``: every label and annotation, what writes it and what reads it;
   ``key_spelling``: misspelled ones; ``quota_names``: which quota and queue they name;
   ``well_known_kinds``: kinds of jobs by name; ``field_path``: paths to fields, for declared kinds;
   ``json_pointer``: keys in JSON patches;
   ``pod_group_labels``: how pods name their group; ``held_jobs``: which job a held pod is of.
4. ``quantity``, ``resource_list``: "500m" and "2Gi" as exact integers, and vectors of amounts;
   ``resource_names``: deprecated names, and what replaces them; ``pod_requests``: what one pod
   requests; ``durations``, ``timestamps``: how they are written and parsed;
   ``manifest_documents``: the text of a manifest as objects.
5. ``client``: how a request reaches the API server; ``informer``: how its answers become a cache.
6. ``work_queue``, ``backoff``, ``leader_election`` (over ``lease_lock``), ``leader_warmup``: small
   tools that both programs run on.
7. ``process``: clocks, the one loop that runs steps on a thread, probes, logs; ``metrics``.
8. ``program``: start, leader election and shutdown of a program; ``program_flags``: the flags that
   both have; ``upstream_flags``: those that are accepted and have no effect; ``authorization``: who
   may read their metrics and answers; ``debug_api``: how these are served; ``question_errors``: why
   a question has no answer; ``version``: of both.
9. ``crds``: writes the files under crds/ from the types, by ``crd_schema``.
10. ``admission_check_kit``: a controller of admission checks, but for its rule.
11. ``fake_api_server``: an API server in memory; ``testing``: that, the virtual clock and builders,
    for tests and plugin authors.

Tested by ``tests/shared_api``, module by module; that the fake API server answers as a real one by
``tests/contracts/api_server``.

Not here: any decision about who may start (``queue_scheduler``) and anything that knows more
of a kind of job than its name (``queue_controllers``). This package imports neither.
"""
