"""What happens to a manifest that is submitted now: `submission` asks a copy of the engine.

It imports the part of the controllers that builds units (``queue_controllers.manifests``), which
nothing else of the scheduler does; so it is imported at the first question only.

Not here: the route and its answers (``queue_insight.debug_api``).

Tested by ``tests/queue_insight/try_out`` and ``tests/properties/test_try.py``.
"""
