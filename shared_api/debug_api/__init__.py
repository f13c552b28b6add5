"""What the debug APIs of both programs are made of: who may read, and how they are served.

Read in this order:

1. ``debug_app``: a FastAPI application of GET routes behind a guard, which lists its paths;
   ``views``: what all answers have in common; ``contract`` writes its ``openapi.json``.
2. ``router_group``: routes that plugins add, in the manner of gin.
3. ``access``: who may read.
4. ``app_server``: the application behind a private socket, made when it is first asked;
   ``uvicorn_server``: what serves it there; ``peer_process``: who is on the other end.
5. ``server``: the port in front of it; ``debug_flags``: where it listens, and with what.

Not here: the routes themselves and their answers (``queue_scheduler.debug_api``,
``queue_controllers.debug_api``), and probes and metrics, which have ports of their own
(``shared_api.process``).
"""
