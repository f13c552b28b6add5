"""Caches of API objects that are kept up to date: one stage per file.

Read in this order:

1. ``indexed_store``: objects by key and by the requested indexes.
2. ``reflector``: list, then watch; bookmarks, 410 Gone, dropped and stalled watches.
3. ``fresh_read``: whether a cache has caught up with the state of the server at some point in time.
4. ``shared_informer``: one reflector, one store and many handlers; each is called with
   ``(old, new)``.
5. ``kind_watch``: an informer for a kind that the server may not have.

Not here: what a change means. Handlers compare states, and may be called twice, late, or with a new
UID under an old name.

Tested by ``tests/shared_api/informer``.
"""
