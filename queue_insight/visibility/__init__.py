"""The aggregated API: what waits, and why, as objects of the API group ``visibility.koord-queue``.

Users read it with kubectl and their own rights: the API server passes their requests on.
``queue_insight.insight_program`` serves it.

First the application, which the server in front asks after it has authorized a request:

1. ``sources``: what it answers from; ``app``: its routes; ``resources``: its kinds; ``caller``: who
   asks.
2. ``queries``: what a list asks for; ``lists``: which units that are; ``pages``: their order;
   ``snapshots``: states of the engine that are kept for further pages.
3. ``tables``: what kubectl prints; ``formats``: which of both is asked for; ``statuses``: errors.
4. ``discovery``, ``openapi``: what clients ask first.

And the server:

1. ``server``: a bounded port, what judges requests, and the application behind both.
2. ``gatekeeper``: 401, 403 or passed on. ``front_proxy``: who asks, by certificate and headers;
   ``request_attributes``: what it would do; ``status_answers``: refusals. Whether it may is
   for ``shared_api.authorization``.
3. ``upkeep``: certificate, trust and registration, looked after by a thread.
   ``serving_certificate``, ``tls_contexts``: what is served; ``registration``, ``ca_bundle``: how
   the API server knows of it.

Not here: what is computed (``queue_insight.insight``, ``queue_insight.forecast``).

Tested by ``tests/queue_insight/visibility``, ``tests/properties/test_hidden_names.py`` and
``tests/properties/test_marked_fields.py``.
"""
