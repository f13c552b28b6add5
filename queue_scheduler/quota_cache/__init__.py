"""Quotas with running sums: whether a demand fits, and which units to wake. Pure.

Read in this order:

1. ``quota_cache``: the only interface: updates, charges, the check, which units to wake.
2. ``quota_ledger``: what is charged, by unit; ``tree_usage``: the sums that follow;
   ``tree_changes``: when something was charged; ``usage_trees``: all together, for all trees.
3. ``limit_checks``: plain limits; ``min_guarantee``: what is reserved for the owners of a min.
4. ``runtime_check``: the contract of ``queue_scheduler.quota.runtime_contract``, in a walk down one
   chain: ``unconstrained_levels`` if sums are enough, ``chain_levels`` if a division is needed
   (``level_division``), ``full_runtime_check`` if a walk is not possible.
5. ``wake_index``: which units wait for which limit (``runtime_wake_index``: for a runtime);
   ``runtime_wake_check``: which of them a change concerns.
6. ``reclaim``: what the owner of a min may reclaim; ``what_if``: the check with other charges;
   ``quota_views``: numbers for users.

Cached results (divisions, entitlements, levels) belong to the module that computes them. It detects
by itself that the underlying sums have changed: by the tree's clock, or because ``tree_usage``
records changed claims for the watcher of a quota's children.

Not here: the arithmetic from scratch (``queue_scheduler.quota``).
"""
