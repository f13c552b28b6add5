"""Answers to the questions of users, by the engine that decides.

- ``explain``: why a unit waits: all that keeps it from starting.
- ``changes``: the smallest single changes that would start it now. ``trials`` tries each ``change``
  on a fork; ``question`` is the unit that is asked about. One module per kind of change:
  ``limit_changes`` (with ``limit_edits``), ``end_changes``, ``demand_changes``, ``place_changes``,
  ``queue_changes``.
- ``admitted``: what a unit was admitted on, what it borrows, and what could evict it.
- ``virtual_cluster``: runs an engine forward in virtual time, and plays what is outside of it;
  ``agenda`` has its events.
- ``wording``: the only module that renders refusals and their numbers as text.

Not here: routes (``queue_scheduler.debug_api``), and any writes.
"""
