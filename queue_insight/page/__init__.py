"""The web page of the insight program: what a browser asks, and what it is shown.

Read in this order:

1. ``page_app``: the routes; ``sources``: what they answer from.
2. ``visitors``: who asks, and what it may read; ``browser_guard``: the checks and headers of every
   answer.
3. ``known_state``: what all visitors are shown parts of, computed once; ``overview``,
   ``queue_view``, ``unit_view``, ``quota_view``, ``over_time``, ``report``, ``known_names``: the
   answers; ``question_words``: what is wrong with a question; ``hidden_sums``: the amounts that a
   visitor may see. All jobs: ``job_answers`` over ``job_table``, whose rows are of ``job`` and
   ``ended_jobs``; ``job_filter`` finds and sorts them, ``job_list`` shows them.
   One unit: also ``units_ahead``; ``kept_changes``, those that were found; ``remembered_unit``,
   what is left of one that is gone.
4. ``api_routes``: what the API server is asked with the token of a visitor, by ``visitor_client``:
   ``unit_pods``, ``unit_events``, ``unit_manifests`` of the objects that ``unit_objects`` names;
   ``manifests``, also of the objects that ``stated_objects`` names; ``api_answers``: how these are
   decoded.
5. ``static_files``: the files of the window, in ``static/``; ``page_metrics``: what is counted.
6. ``page_server``: the port; ``tls_acceptor``: bounds TLS handshakes; ``bounded_connection``: the
   connections after them; ``networks``: whose addresses stand for many visitors;
   ``renewed_certificate``: reads the certificate again.

Nothing here writes to the cluster. Not here: what is computed (``queue_insight.insight``,
``queue_insight.forecast``), and the models of single objects (``queue_scheduler.debug_api``,
``queue_insight.debug_api``).

Tested by ``tests/queue_insight/page`` and ``tests/properties/test_hidden_names.py``.
"""
