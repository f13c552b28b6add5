"""Process 4, ``koord-queue-insight``: answers what takes long, with an engine of its own.

It runs in the scheduler's pod. The scheduler tells it every call of its engine over a local socket,
so that its engine is in the same state; it talks to no API server. What it computes costs the
scheduler nothing, and if it ends, deciding goes on.

Read in this order:

1. ``flags``: its command line; ``wiring``: its parts, put together.
2. ``followed_engine``: the engine that plays what another one was told; ``feed_server`` receives
   it, over ``queue_insight.insight_feed``'s frames.
3. ``answer_app``: the routes, over a second local socket that ``answer_server`` serves. The
   scheduler's debug API asks there (``debug_api.insight_link``), after it has checked its caller.
4. ``forecasting``, ``horizons``: what it looks ahead from, and what questions look ahead for.
5. ``recording``: what it keeps on disk, and engines of earlier times from that; ``sampler``: what
   is kept once a minute; ``use_recording``: what accounts use.
6. ``follow_metrics``: how far it is behind; ``admission_rates``: how many units are admitted;
   ``fitting_watch``: units that wait without a reason.
7. ``visibility_serving``, ``page_serving``: the ports of the aggregated API and of the page, whose
   answers are made by ``queue_insight.visibility`` and ``queue_insight.page``.

To add a route: a class with its methods over `Sources`, one line in ``answer_app``, and a route in
``debug_api.app`` that asks this program.

Not here: who may read what (the scheduler's debug API); what is computed
(``queue_insight.insight``); the calls and their form (``queue_insight.record``).

Tested by ``tests/queue_insight/insight_program``.
"""
