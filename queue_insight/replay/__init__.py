"""Replays a trace of jobs with the engine that decides, in virtual time: `koord-queue replay`.

Read in this order:

1. ``command``: the command line, and what a user sees.
2. ``trace_files``: opens a trace; ``csv_traces``, ``swf_trace``, ``philly_trace`` read one form
   each, into ``jobs``.
3. ``quota_files``: quotas, queues and nodes from YAML; ``replayed_world``: an engine that has them.
4. ``replay_run``: one replay, with ``insight.virtual_cluster``; ``tally`` counts what happens.
5. ``report``: the numbers as JSON and text; ``html_report``: as a page; ``progress``: meanwhile.

Not here: how time passes (``queue_insight.insight.virtual_cluster``).

Tested by ``tests/queue_insight/replay``.
"""
