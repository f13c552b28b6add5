"""The quota arithmetic from scratch: exact integers, pure.

Read in this order:

1. ``quota_decision``: a demand, problems of quotas, and how one is shown; ``quota_settings``: the
   settings.
2. ``quota_spec``: one ElasticQuota in exact amounts; ``quota_tree``: its parents and children, and
   what is wrong with a broken chain (``webhook_rules``); ``capacity``: what the nodes have.
   Other objects become the same specs: ``quota_tree_spec`` an ElasticQuotaTree
   (``tree_node_lookup``: which node a unit means; ``tree_queue_names``: its queue),
   ``resource_quota_spec`` a ResourceQuota.
3. ``runtime_division``: how much of a parent's amount each child gets, as koord-scheduler divides
   it; ``water_filling``: the same result without a loop over the children.
4. ``runtime_contract``: what a queue may promise ahead of koord-scheduler;
   ``koord_scheduler_state``: what a queue cannot know about it.

This is the reference: ``queue_scheduler.quota_cache`` gives the same answers from running sums.

Not here: ElasticQuota objects as they are served (``shared_api.objects.elastic_quota``), and which
quota a unit names (``shared_api.quota_names``).

Tested by ``tests/queue_scheduler/quota``, ``tests/properties/test_quota_tree_rules.py`` and
``tests/properties/test_quota_runtime.py``.
"""
