"""Whether a demand fits the quota it is charged to. Exact integers, pure.

Read in this order:

1. ``quota_decision``: what is asked of a quota, and its "no" with the numbers; ``quota_settings``:
   what can be set, and what goes together.
2. ``quota_books``: the one door. Facts in, bookings, the question, who to wake.
3. ``quota_spec``: one ElasticQuota in exact amounts; ``quota_tree``: its parents and children, and
   what is wrong with a broken chain (``quota_rules``); ``capacity``: what the nodes have.
   Other objects become the same specs: ``tree_specs`` an ElasticQuotaTree (``named_nodes``: which
   node a unit means; ``node_queues``: where it waits), ``hard_specs`` a ResourceQuota.
4. ``runtime_quota``: how much of a parent's amount each child gets, as koord-scheduler divides it;
   ``runtime_contract``: what a queue may promise ahead of it; ``scheduler_memory``: what a queue
   can not know about it. All three from scratch: the yardstick.
5. ``quota_ledger``: who has booked what; ``tree_books``: the sums that follow, kept up to date;
   ``built_trees``: both together, for all trees.
6. ``quota_fit``: plain limits; ``runtime_walk``: the promise again, in a walk down one chain
   (``plain_levels`` where sums say it, ``division_levels`` where it takes ``node_division`` and
   ``water_level``, and ``scratch_check`` where a walk can not do it); ``guarantee``: what is kept
   for owners.
7. ``waiting_room``: who waits for which limit (``contract_waiters``: for a runtime), and
   ``refusal_grounds``: whom of these a change concerns. ``quota_views``: numbers for people.

Not here: ElasticQuota objects as they come over the wire (``shared_api.objects.elastic_quota``),
pods: their demand arrives as a fact; and which quota they belong to (``shared_api.quota_names``).
"""
