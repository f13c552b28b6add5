"""Answers as lines and tables for people. Values in, text out; only ``printer`` writes.

- ``printer``: a terminal or a pipe: widths, colors, tables, notes, and text that others have
  written.
- ``table``, ``times``: columns, and ages.
- ``moments``: the times that people type.
- ``paragraphs``, ``words``: sentences and lists as lines; ``explanation``, ``forecasts``,
  ``tried``, ``what_if``, ``unit_life``: one kind of answer each.

Tested by ``tests/koord_queue/show``.
"""
