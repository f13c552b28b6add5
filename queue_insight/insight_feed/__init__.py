"""Sends the insight program every call of the engine, over a local socket.

Read in this order:

1. ``frames``: pieces of a byte stream; ``messages``: what is in them.
2. ``feed``: the thread that connects, sends a copy of the engine and then every call of it;
   ``feed_metrics``: how far it is behind.
3. ``record_watch``: asks that program whether it records, and writes an event when it does not.

Both programs use the first two. Not here: the calls and their form (``queue_insight.record``);
the receiving end (``queue_insight.insight_program``).

Tested by ``tests/queue_insight/insight_feed``.
"""
