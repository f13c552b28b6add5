"""The built-in plugins, one per file; they do not import each other.

Each implements extension points of ``queue_scheduler.framework`` and is pure: facts in, an answer
out. Start reading with ``priority``; ``elastic_quota`` does the most, together with its base in
``queue_scheduler.quota_plugin``. A module ``*_arguments`` reads a plugin's part of the
configuration file.

Not here: the order in which they are asked (the configuration), the list of them
(``queue_scheduler.setup.plugin_loading``), and third-party plugins, which live in their own
packages.

Tested by ``tests/queue_scheduler/plugins``.
"""
