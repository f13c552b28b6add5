"""What is put together at the start, by configuration.

- ``plugin_loading``: plugins and policies by name, built in or by entry point.
- ``plugin_handle``: what a plugin gets of the program.
- ``quota_sources``: the kinds that are watched for quotas.

Not here: the program as a whole (``queue_scheduler.wiring``).
"""
