"""Keeps the accounts in ConfigMaps of the queues' namespace. Only the leader writes.

Read in this order:

1. ``config_maps``: reads and writes the texts, each guarded by its version.
2. ``account_keeper``: tells the engine what was kept, and keeps what has changed.
3. ``account_metrics``: how many accounts there are.

Not here: what an account is and has used (``queue_scheduler.tenants``); the form of the texts
(``queue_scheduler.tenants.shards``).

Tested by ``tests/queue_scheduler/account_store``.
"""
