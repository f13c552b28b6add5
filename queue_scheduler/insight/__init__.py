"""Answers to the questions of users, by the engine that decides.

- ``explain``: why a unit waits: all that keeps it from starting.
- ``admitted``: what a unit was admitted on, what it borrows, and what could evict it.
- ``wording``: the only module that renders refusals and their numbers as text.

Not here: routes (``queue_scheduler.debug_api``), and any writes.
"""
