"""Pending units and their order. Pure: no I/O, lock, clock or log.

Read in this order:

1. ``pending_order``: one total order of keys, cheap to change and to copy.
2. ``queue_policies``: Priority, Block, FIFO, Intelligent, Fair: the order, and what a refused unit
   does to those behind it; ``fair_settings``: how Fair orders accounts.
3. ``scheduling_queue``: one queue, and which unit is next. It has its rules (``queue_rules``: a
   value, with its ``queue_options``) and its pending units (``pending_classes``, by quota in
   ``class_queue``; ``tried_units``: which of them hold back others); ``strict_mode``: queues that
   ask for nodes before a unit may start. ``queue_questions``: why its units are pending. Where
   accounts are ordered, ``fair_classes`` takes the place of ``pending_classes``, with
   ``account_ranks`` and ``growing_heap``.
4. ``turn_order``, ``turns``: which queue has its turn; ``queue_set``: all queues.
5. ``managed_queues``: what a queue has from the ElasticQuota that it was made for;
   ``parent_queues``: which queue stands above another.

Not here: whether a unit fits (``queue_scheduler.quota_cache``), and Queue objects in the API server
(``queue_scheduler.queue_objects``).

Tested by ``tests/queue_scheduler/queueing``, ``tests/properties/test_queue_turns.py`` and
``tests/properties/test_backfill_promises.py``.
"""
