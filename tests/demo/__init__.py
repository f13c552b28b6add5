"""The demo: the two programs as real processes, with a real trace. `make demo` runs it.

Its modules, in the order in which a run uses them:

1. ``make_slice``: cuts the load out of the full trace; done once (``tests/data/traces``).
2. ``load_plan``: quotas and jobs from the slice; pure. ``demo_settings``: the command line.
3. ``clusters``: where it runs: the fake API server over HTTP (``embedded_cluster``), a real
   control plane (``local_cluster``), or your own cluster (``current_cluster``).
   ``cluster_content`` creates namespaces, quotas, and jobs there, and removes them.
4. ``job_moves`` and ``cluster_player``: play the Job controller, the binding of pods, and the
   kubelets on the fake server; the first is pure.
5. ``program_processes``: the two programs, their addresses, and their ends.
6. ``event_feed`` reads changes from the API; ``cluster_picture`` keeps the current state (the
   table). ``observer`` sorts changes by version, ``account_book`` checks them, ``unit_charge``
   computes what a job uses. All of it is independent of the two programs: it reads only the API.
7. ``queue_table``, ``terminal``: the display; ``run_summary``: the summary; ``replay_files``: the
   load as files, for the command that the summary ends with.
8. ``demo_run``: one run, from the start to the removal of everything. ``__main__``: the command.
9. ``pictures``: the pictures of README.md, taken of a run. It needs the packages of the tests.

``json_api`` is the plain API client that all of them use.
"""
