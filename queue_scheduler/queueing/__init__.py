"""What waits, and in which order. Pure: no I/O, lock, clock or log.

Read in this order:

1. ``pending_order``: who comes first, as one total order.
2. ``queue_policies``: Priority, Block, FIFO, Intelligent: what a refused unit does to those behind.
3. ``scheduling_queue``: one queue: its waiting units (``quota_line``), and what its object asks for
   (``queue_options``); ``strict_mode``: queues that ask for nodes before a unit may start.
4. ``turn_order``, ``queue_set``: all queues, and which of them has its turn.

Not here: whether a unit fits (``queue_scheduler.quota``), and Queue objects in the API server
(``queue_scheduler.queue_reconciler``).
"""
