"""Caches of what the API server holds, kept up to date: one stage per file.

Read in this order:

1. ``indexed_store``: objects by key, and by whatever index was asked for.
2. ``reflector``: list, then watch; bookmarks, 410 Gone, dropped and stalled watches.
3. ``fresh_read``: whether a cache holds all that the server held when it was asked.
4. ``shared_informer``: one reflector and one store, many handlers; each gets ``(old, new)``.
5. ``kind_watch``: an informer for a kind that may not be there.

Not here: what a change means. Handlers compare states and may be called twice, late, or with a new
UID under an old name.
"""
