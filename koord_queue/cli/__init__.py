"""The commands: one module for each, or for a family; ``app`` lists them.

A command is thin: it declares its options, asks through a ``session``, and gives the answer to
functions of ``koord_queue.show``. ``options`` has what several commands share.
"""
