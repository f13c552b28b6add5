"""The scheduler's debug API: what is pending and why, by routes over snapshots and forks.

Read in this order:

1. ``snapshots``: what is copied under the engine's lock; ``views`` and ``queue_views``: that ->
   answers; ``hiding``: what a reader is not shown of them, by marks on their fields;
   ``account_views``, ``limit_views`` and ``fair_views``: sums by user, of which each row is shown
   or not; ``reservation_views``: when units must not run.
2. ``state_answers``: these answers, one at a time.
3. ``app``: the routes, in FastAPI; plain ``def``, never ``async def``; ``parameters``: what they
   are asked with; ``additions``: what others add to them.

Not here: the routes of questions that are answered by looking ahead or by a record
(``queue_insight.debug_api``); who may read, and how it is served
(``shared_api.debug_api``); the words of a refusal (``queue_scheduler.refusal_texts``).

Tested by ``tests/queue_scheduler/debug_api``, ``tests/properties/test_hidden_names.py`` and
``tests/properties/test_marked_fields.py``.
"""
