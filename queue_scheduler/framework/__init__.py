"""The contract of scheduler plugins.

Read in this order:

1. ``extension_points``: which methods a plugin may have, when they are called, and what each answer
   leads to.
2. ``queue_unit_info``: what a plugin learns about a unit.
3. ``handle``: what a plugin gets at start-up: caches to read, routes, events.
4. ``plugin_runner``: all plugins as one, asked in order: what decides and charges. Its parts:
   ``plugin_placing`` (where a unit belongs), ``plugin_waking`` (which refused classes are woken)
   and ``plugin_facts`` (what plugins are told). ``plugin_questions``: what no decision depends on.
   ``taking_part``: which plugins take part in an extension point.

Not here: any plugin. ``queue_scheduler.setup.plugin_loading`` lists the built-in ones
(``queue_scheduler.plugins``); others are found by the entry point group
``koord_queue.scheduler_plugins``.

Tested by ``tests/queue_scheduler/framework``.
"""
