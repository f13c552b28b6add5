"""What answers: why a unit waits, what would change, when it starts, and what was.

The scheduler decides without it, and loads it by name (``queue_scheduler.additions``). Read in this
order:

1. ``insight``: why a unit waits; ``what_if``: what edits would change; ``forecast``: when units
   start; ``try_out``: what becomes of a manifest. All are asked of copies of the engine.
2. ``record``: what the engine was told and asked, to play it again; ``dump``: all that it believes,
   as a file; ``offline``: answers from such a file; ``replay``: a trace of jobs in virtual time.
3. ``debug_api``: the routes that are added to the scheduler's; ``visibility``: the aggregated API,
   registered by ``api_registration``; ``page``: the page.
4. ``insight_program``: another program, which answers what takes long; ``insight_feed`` sends it
   what the engine is told.
5. ``shadow_program``: `--shadow`, which watches a cluster of other queues; ``shadow``: its record,
   and what this queue would have done.
6. ``scheduler_additions``: what the scheduler's program gets of it.

Tested by ``tests/queue_insight``, module by module; in a browser by ``tests/page``, and beside a
real API server by ``tests/cluster``.

``try_out`` and ``shadow_program`` alone use the code of ``queue_controllers``, to build units that
nothing creates.
"""
