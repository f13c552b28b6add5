"""Asks a dump what the debug API answers of a cluster.

- ``load``: a file as an engine with its time.
- ``answers``: the functions of the routes, asked of that engine.
- ``text``: their answers as lines.
- ``command``: the commands of ``koord-queue`` that take a dump.

Not here: what is in a dump (``queue_scheduler.dump``), and what the answers say
(``queue_scheduler.debug_api``).
"""
