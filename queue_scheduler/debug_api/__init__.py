"""The scheduler's debug API: what is pending and why, by routes over snapshots and forks.

Read in this order:

1. ``snapshots``: what is copied under the engine's lock; ``views``: that -> answers.
2. ``try_routes`` and ``try_views``: what becomes of a manifest; ``dump_routes``: a file with all.
3. ``app``: the routes, in FastAPI; plain ``def``, never ``async def``; ``openapi`` writes their
   contract into ``openapi.json``.

Not here: who may read, and how it is served (``shared_api.debug_api``); the words of a refusal
(``queue_scheduler.insight``).
"""
