"""What the APIs of Koord-Queue answer, as frozen values with the fields of the answers.

Unknown fields are ignored and absent ones have defaults, so that a command line and a scheduler of
different versions understand each other.

Generated from the contracts of the debug APIs by ``tests/client_structs.py`` (``make openapi``):

- ``current_unit``, ``queues``, ``quotas``: where units, queues and quotas stand; ``refusal``: why a
  unit waits.
- ``reservations``: when units must not run, and what runs into that.
- ``explanation``: what keeps a unit from starting, and what would start it; ``forecast``: when it
  starts.
- ``tried``: what becomes of a manifest; ``what_if``: what edits change.
- ``log``: what was decided. ``jobs``: whether a job is managed, and why.

Written by hand:

- ``decoding``: bytes as one of them; amounts and times stay the strings that were sent.
- ``units``: units of older servers too. ``quota_trees``: quotas of both sources.
- ``pending``: where units wait, by the aggregated API or the debug API.
- ``replay``: what a replay has shown.

Tested by ``tests/koord_queue/answers``.
"""
