"""What each act changes, as values: objects in, merge patches out. Pure.

- ``change``: a change of one object, or that nothing has to be changed.
- ``on_units``: acts on a unit; they change its job where the controllers carry that over.
- ``on_queues``: acts on a queue; they change its quota where the queue follows that.
- ``manifest``: the objects that are to be created.
- ``following``: what a submitted job does, from its unit and itself.

Tested by ``tests/koord_queue/acts``.
"""
