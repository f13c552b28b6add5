"""The command line `koord-queue`, a client for programs, and what both reach a cluster with.

Programs import ``client``, which asks a cluster, and ``replays``, which plays traces
(docs/python.md). No server is imported. Read in this order:

1. ``cli``: one module for each command: options, a question, what is shown. ``app`` is the list.
   ``client``: the same for programs. Both stand on ``session``: what is open, and where to ask.
2. ``reach``: where answers come from: the API server, the aggregated API, the debug API.
3. ``answers``: what these answer, as values.
4. ``show``: answers as lines and tables for people.
5. ``acts``: what a command changes in which object.
6. ``checks``: what can be wrong with an installation.
7. ``importing``: what another queue's objects become.

Tested by ``tests/koord_queue``, module by module; on a terminal and a real cluster by
``tests/cluster/test_command_line*.py``.

Modules are imported when a command needs them, since a command line is started anew for each
question: ``koord-queue --help`` imports nothing but click and ``cli.app``.

Not here: the engine (``queue_scheduler``). ``replay``, and questions to a dump, import it.
"""
