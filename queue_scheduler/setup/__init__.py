"""What is built at startup, by configuration.

- ``plugin_loading``: plugins and policies by name, built in or by entry point.
- ``additions``: what other packages add to the program, by name.
- ``plugin_handle``: the part of the program that plugins can use.
- ``quota_sources``: the kinds that are watched for quotas.
- ``object_caches``: the informers of all kinds; ``pod_trimming``: what is kept of pods;
  ``optional_kind``: the informer of a kind that the cluster may lack.
- ``threads``: the threads of the parts, and their queues of keys.

Not here: the program as a whole (``queue_scheduler.wiring``).

Tested by ``tests/queue_scheduler/setup``.
"""
