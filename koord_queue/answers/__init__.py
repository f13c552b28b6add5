"""What the APIs of Koord-Queue answer, as frozen values: only the fields that are shown.

Unknown fields are ignored and absent ones have defaults, so that a command line and a scheduler of
different versions understand each other.

- ``decoding``: bytes as one of them; amounts and times stay the strings that were sent.
- ``pending``, ``units``, ``queues``: where units and queues stand.
- ``explanation``: why a unit waits, and what would start it; ``forecast``: when it starts.
- ``jobs``: whether a job is managed, and why.
- ``tried``: what becomes of a manifest; ``what_if``: what edits change.
"""
