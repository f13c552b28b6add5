"""Quotas with running sums: whether a demand fits, and which units to wake. Pure.

Read in this order:

1. ``quota_cache``: the entry: facts and charges in, whether a demand fits, which units to wake.
2. ``stated_quotas``: the quotas as their objects state them; ``quota_ledger``: what is charged, by
   unit; ``left_resources``: what still counts though a max no longer names it; ``tree_usage``: the
   sums that follow; ``tree_changes``: when something was charged; ``usage_trees``: all together,
   for all trees.
3. ``limit_checks``: plain limits; ``min_guarantee``: what is kept for the owners of a min;
   ``claims``: the same beside pods that only claim a share.
4. ``runtime_check``: the promise of ``queue_scheduler.quota.runtime_contract``, in a walk down one
   chain: ``unconstrained_levels`` where sums are enough, ``chain_levels`` where it takes a
   division (``level_division``), ``full_runtime_check`` where a walk cannot do it.
5. ``wake_index``: which units wait for which limit (``runtime_wake_index``: for a runtime);
   ``runtime_wake_check``: which of them a change concerns.
6. ``reclaim``: what the owner of a min may take back; ``what_if``: the same question for
   hypothetical charges.
7. For users: ``every_limit``: all that a demand does not fit; ``pressing_pods``: which pods count
   against it; ``admission_record``: what it was admitted on; ``quota_views``: numbers of a quota.

What is computed once and kept, a division, an entitlement, a level, stays with the module that
computes it, which also finds out when the sums below it have changed: by the tree's clock, or
because ``tree_usage`` notifies those that watch the claims of a quota's children.

Not here: the arithmetic from scratch (``queue_scheduler.quota``).

Tested by ``tests/queue_scheduler/quota_cache``, ``tests/properties/test_quota_runtime.py`` and
``tests/properties/test_quota_waking.py``.
"""
