"""What follows from edits of objects: at once, and over a time. Pure.

- ``edit``: one edit as data, and the error that names its field; ``validation`` checks a patch.
- ``object_edits``, ``unit_edits``, ``settings_edits``: what each kind of edit tells an engine;
  ``apply`` tells all edits of a question, after ``cost`` has judged what they cost.
- ``at_once``: two copies of the engine run until they rest, one with the edits; what differs.
- ``horizon``: the same two copies in virtual time, on the same random numbers.

Tested by ``tests/queue_insight/what_if`` and ``tests/properties/test_what_if.py``.
"""
