"""The contract of scheduler plugins.

Read in this order:

1. ``extension_points``: who calls what, when, and what each answer leads to.
2. ``status``: the answers.
3. ``queue_unit_info``: what a plugin is told about a unit.
4. ``handle``: what a plugin gets at start-up: caches to read, routes, events.
5. ``plugin_runner``: loads the configured plugins and asks them in turn.

Not here: any plugin. ``queue_scheduler.wiring`` knows the list of those that come along
(``queue_scheduler.plugins``); others are found by the entry point group
``koord_queue.scheduler_plugins``.
"""
