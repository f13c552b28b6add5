"""The controllers' debug API: whether a job is managed, and why or why not.

Read in this order:

1. ``explanation``: what is known of a job -> whether it is managed, and what is wrong with it, by
   the functions that the reconcilers decide with.
2. ``kind_names``: which kind of job a reader means; ``views``: the answers.
3. ``app``: the routes, in FastAPI; plain ``def``, never ``async def``; ``openapi`` writes their
   contract into ``openapi.json``.

Not here: who may read, and how it is served (``shared_api.debug_api``); why a unit waits, which the
scheduler reports (``queue_scheduler.debug_api``).

Tested by ``tests/queue_controllers/debug_api``.
"""
