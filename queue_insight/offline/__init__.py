"""Answers the questions of the debug API from a dump. No flags, no texts: JSON as of the routes.

- ``load``: a file as an engine with its time.
- ``answers``: the functions of the routes, asked of that engine. It needs the packages of a server.
- ``prepare``: a dump as a file for a bug report.
- ``errors``: what goes wrong, as sentences.

Not here: what is in a dump (``queue_insight.dump``), what the answers say
(``queue_scheduler.debug_api``, ``queue_insight.debug_api``), and the commands
(``koord_queue.cli``).

Tested by ``tests/queue_insight/offline``.
"""
