"""The common parts of the debug APIs of both programs: authorization and serving.

Read in this order:

1. ``debug_app``: a FastAPI application behind a guard, which lists its paths; ``views``: the base
   of all answers; ``contract`` encodes its ``openapi.json``; ``json_body``: what a POST sends.
2. ``router_group``: routes that plugins add, similar to gin's.
3. ``access``: guards that authorize requests.
4. ``app_server``: the application on a thread of its own, built at the first request.
5. ``server``: the port in front of it; ``debug_flags``: the flags of address and TLS.

Not here: the routes themselves and their answers (``queue_scheduler.debug_api``,
``queue_insight.debug_api``, ``queue_controllers.debug_api``), and probes and metrics, which
have their own ports (``shared_api.process``).

Tested by ``tests/shared_api/debug_api``.
"""
