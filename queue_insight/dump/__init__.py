"""Everything that an engine believes as one JSON file, from which another process builds an engine.

Read in this order:

1. ``contents``: what a dump has. It is JSON of fixed types: reading one runs nothing.
2. ``settle``: what is being written at the moment of a dump, as if it were written.
3. ``take``: an engine as a dump; ``restore``: an engine from a dump. ``beyond_objects`` has what no
   object says: turns, refusals, rounds of evictions.
4. ``codec``: a dump as bytes, and back.
5. ``anonymize``: a dump without names; ``renaming``: other names in the same order.

Not here: who builds the plugins of the new engine, and asks it (``queue_insight.offline``).

Tested by ``tests/queue_insight/dump``, ``tests/properties/test_dumps.py`` and
``tests/properties/test_anonymized_dumps.py``.
"""
