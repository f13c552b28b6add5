"""The window to look in: GET routes over snapshots, read-only.

Read in this order:

1. ``views``: snapshots of the engine -> answers.
2. ``app``: the routes, in FastAPI; plain ``def``, never ``async def``.

Not here: the answers to "why" and "when" themselves (``queue_scheduler.insight``), and probes and
metrics, which have ports of their own (``shared_api.process``).
"""
