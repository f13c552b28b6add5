"""What a command or a program asks with: connections that are opened when they are needed.

Read in this order:

1. ``session``: the cluster, the answers, the output and the time of one run.
2. ``answer_context``: where a question goes, to the cluster or to a dump, and its present.
3. ``edit_flags``: the short forms of edits, as `what-if` takes them. Pure.

``cli`` and the client library stand on it. Not here: where answers come from (``reach``).

Tested by ``tests/koord_queue/session``.
"""
