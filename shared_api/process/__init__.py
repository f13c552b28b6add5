"""The runtime of both programs: time, threads, probes, logs.

Read in this order:

1. ``clock``: the time, as an argument; the only module that reads the system's clocks.
2. ``loop_thread``: runs a ``step()`` repeatedly on a thread; the only module that loops,
   sleeps and catches ``Exception``.
   ``alarm``: what wakes that thread.
3. ``probes``: ``/livez``, ``/readyz``, ``/healthz`` and ``/metrics``, over ``http_exchange`` (one
   request and its answer) and ``connection_gate`` (one listening port); ``open_files``: how many
   descriptors each port may have.
   ``local_socket``: connections between two processes of one pod.
4. ``structured_logs``: one event with fields, as JSON or for a console; ``trouble_log``: when
   something begins to fail, and when that ends.
5. ``malloc_arenas``: how much freed memory threads hold back; ``freed_memory``: gives it back.

Not here: what the steps do, and which of them a program has (its ``wiring``).

Tested by ``tests/shared_api/process``.
"""
