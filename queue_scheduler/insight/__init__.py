"""Questions put to a fork of the engine, answered without touching the real one.

- ``wording``: refusals in words, the one place where numbers become text for a person.
- ``explain``: why does this unit wait?
- ``forecast``: when will it start?
- ``what_if``: what would start under another quota or queue?
- ``replay``: what would have happened to a recorded load?

Not here: routes (``queue_scheduler.debug_api``), and any writing.
"""
