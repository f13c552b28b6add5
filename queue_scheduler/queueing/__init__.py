"""Pending units and their order. Pure: no I/O, lock, clock or log.

Read in this order:

1. ``pending_order``: one total order of keys, cheap to change and to copy.
2. ``queue_policies``: Priority, Block, FIFO, Intelligent: the order, and what a refused unit does
   to those behind it.
3. ``scheduling_queue``: one queue: its pending units (``class_queue``), and its options
   (``queue_options``); ``strict_mode``: queues that ask for nodes before a unit may start.
4. ``fair_order``, ``turns``: which queue has its turn; ``queue_set``: all queues.
5. ``managed_queues``: what a queue has from the ElasticQuota that it was made for.

Not here: whether a unit fits (``queue_scheduler.quota_cache``), and Queue objects in the API server
(``queue_scheduler.queue_objects``).
"""
