"""The demo: the two programs as real processes, on a real trace. `make demo` runs it.

In the order in which a run goes through them:

1. ``make_slice`` cut the load out of the full trace, once (``tests/data/traces``).
2. ``load_plan``: the slice becomes quotas and jobs; pure. ``demo_settings``: what a person asked.
3. ``clusters``: where it runs: the fake API server over HTTP (``embedded_cluster``), a real
   control plane (``local_cluster``), or a cluster of yours (``current_cluster``).
   ``cluster_content`` puts namespaces, quotas and jobs there, and takes them away again.
4. ``job_moves`` and ``cluster_player``: who plays the Job controller, the binding of pods and the
   kubelets on the fake server; the first is pure.
5. ``program_processes``: the two programs, their addresses, and what became of them.
6. ``event_feed`` brings what the API tells; ``cluster_picture`` is what can be seen in it now (the
   table). ``observer`` puts it into the order in which it happened, ``account_book`` judges it,
   ``unit_charge`` says what a job takes. All of it is independent of the two programs: it reads
   the API and nothing else.
7. ``queue_table``, ``terminal``: what a person sees; ``run_summary``: what came of it.
8. ``demo_run``: one run, from start to the removal of everything. ``__main__``: the command.

``json_api`` is the plain door to the API server that all of them use.
"""
