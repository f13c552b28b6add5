"""Whether a demand fits the ElasticQuota it is charged to. Exact integers, pure.

Read in this order:

1. ``quota_decision``: what is asked of a quota, and its "no" with the numbers.
2. ``quota_spec``: one ElasticQuota in exact amounts; ``quota_tree``: its parents and children, and
   what is wrong with a broken chain; ``quota_lookup``: which quota a pod or namespace belongs to.
3. ``runtime_quota``: how much of a parent's amount each child gets, as koord-scheduler divides it;
   ``runtime_contract``: what a queue may promise ahead of it.
4. ``quota_books``: what is booked, by whom; whether a demand fits; who is to be woken.
   ``validate()`` recomputes it all.
5. ``quota_settings``: what can be set, and what goes together.

Not here: ElasticQuota objects as they come over the wire (``shared_api.objects.elastic_quota``),
and pods: their demand arrives as a fact.
"""
