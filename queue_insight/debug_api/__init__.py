"""The questions that users ask beyond the state: routes, and the answers in their forms.

Read in this order:

1. ``explanations``: what is asked about one unit, in turn with others, and charged to whoever
   asks; ``explain_views``: what is found -> answers.
2. ``try_routes`` and ``try_views``: what becomes of a manifest; ``what_if_routes``: what edits
   would change; ``forecast_routes``: when units start; ``dump_routes``: a file with all;
   ``report_routes`` and ``report_views``: who used how much.
3. ``question_caller``, ``question_budget`` and ``answer_turns``: whose share of computing a
   question takes; ``engine_state``: the state that it is asked of.
4. ``insight_link`` and ``insight_views``: what the insight program is asked over its socket.
5. ``answers``: the answers of this process; ``app``: the routes, which ``debug_api.app`` adds to
   its own; ``openapi`` writes the contract of both into ``openapi.json``.
6. ``uvicorn_run``: a server on a thread of its own, for the programs that serve answers.

Not here: the routes of the state (``queue_scheduler.debug_api``); the computing itself
(``insight``, ``what_if``, ``forecast``, ``try_out``, ``dump``).

Tested by ``tests/queue_insight/debug_api``.
"""
