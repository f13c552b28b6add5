"""The aggregated API: what waits, and why, as objects of the API group ``visibility.koord-queue``.

Users read it with kubectl and their own rights: the API server passes their requests on.
``queue_scheduler.insight_program`` serves it.

Read ``caller`` first: who asks, and what it may read.

Not here: what is computed (``queue_scheduler.insight``, ``queue_scheduler.forecast``).
"""
