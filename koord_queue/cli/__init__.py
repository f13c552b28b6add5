"""The commands: one module for each, or for a family; ``app`` lists them.

A command is thin: it declares its options, asks through a ``session``, and gives the answer to
functions of ``koord_queue.show``. ``options`` has what several commands share.

The options of a command are imported for its `--help` and for completion, what it works with only
when it is run: `explain_run` is what `explain` does, and so on; ``acting`` is that of ``acts``.
``shells`` completes words in shells, ``completion`` in kubectl.

Tested by ``tests/koord_queue/cli``.
"""
