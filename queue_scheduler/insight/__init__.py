"""The engine's answers as text for users.

- ``wording``: the only module that renders refusals and their numbers as text.

Not here: routes (``queue_scheduler.debug_api``), and any writes.
"""
