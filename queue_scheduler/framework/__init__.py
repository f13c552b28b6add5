"""The contract of scheduler plugins.

Read in this order:

1. ``extension_points``: who calls what, when, and what each answer leads to.
2. ``queue_unit_info``: what a plugin is told about a unit.
3. ``handle``: what a plugin gets at start-up: caches to read, routes, events.
4. ``plugin_runner``: all plugins as one, asked in turn.

Not here: any plugin. ``queue_scheduler.setup.plugin_loading`` has the list of the built-in ones
(``queue_scheduler.plugins``); others are found by the entry point group
``koord_queue.scheduler_plugins``.
"""
