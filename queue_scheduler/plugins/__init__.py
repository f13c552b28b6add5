"""The plugins that come along, one per file, strangers to each other.

Each implements extension points of ``queue_scheduler.framework`` and is pure: facts in, a verdict
out. A good first one to read is ``priority``; the one with the most to do is ``elastic_quota``.

Not here: the order in which they are asked (the configuration), the list of them
(``queue_scheduler.setup.plugin_loading``), and other people's plugins, which live in packages of
their own.
"""
