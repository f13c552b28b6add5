"""The program `koord-queue`: asks the engine questions without a cluster.

- ``__main__``: its commands. Each has its flags and its work in a package of its own, so that
  another way of parsing the line replaces only this one.

Not here: what the commands do (``queue_scheduler.replay``, ``queue_scheduler.offline``).
"""
