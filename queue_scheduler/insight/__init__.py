"""What the engine's answers mean to a person.

- ``wording``: refusals in words, the one place where numbers become text.

Not here: routes (``queue_scheduler.debug_api``), and any writing.
"""
