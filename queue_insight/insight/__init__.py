"""Answers to the questions of users, by the engine that decides.

- ``explain``: where a unit stands, and why it waits: all that keeps it from starting.
- ``changes``: the smallest changes that would start it now. ``trials`` tries each ``change`` on a
  fork; ``question`` is the unit that is asked about. One module per kind of change:
  ``limit_changes`` (with ``raise_search`` and ``limit_edits``), ``end_changes``,
  ``budget_changes``, ``time_changes``, ``demand_changes``, ``place_changes``, ``queue_changes``;
  ``combined_changes`` makes several of them where none is enough alone, and ``wait_change`` says
  what waiting does (``lookahead``).
- ``admitted``: what a unit was admitted on, what it borrows, and what could evict it.
- ``fitting``: which units nothing keeps from starting; ``queue_source``: which quota a queue
  follows.
- ``finished_run``: what is kept of a unit that has ended.
- ``virtual_cluster``: runs an engine forward in virtual time, and plays what is outside of it;
  ``agenda`` has its events. ``budget_events`` and ``window_events`` evict as time passes.
- ``explanation_texts``: explanations as text; the refusals in them are worded by
  ``queue_scheduler.refusal_texts``.

Not here: routes (``queue_insight.debug_api``), and any writes.

Tested by ``tests/queue_insight/insight``, ``tests/properties/test_explain.py`` and
``tests/properties/test_changes.py``.
"""
