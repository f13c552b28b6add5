"""The window to look in: GET routes over snapshots, read-only.

Read in this order:

1. ``snapshots``: what is copied under the engine's lock; ``views``: that -> answers.
2. ``app``: the routes, in FastAPI; plain ``def``, never ``async def``; ``openapi`` writes their
   contract into ``openapi.json``.
3. ``router_group``: routes that plugins add, in the manner of gin.
4. ``access``: who may read; ``app_server``: uvicorn on a thread; ``server``: the port
   in front of it.

Not here: the words of a refusal (``queue_scheduler.insight``), and probes and
metrics, which have ports of their own (``shared_api.process``).
"""
