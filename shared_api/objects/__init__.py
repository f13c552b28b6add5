"""The Kubernetes objects this project reads, as frozen values: one file per kind.

Each is a ``msgspec.Struct`` with only the fields that are read, camelCase on the wire. ``meta``
comes first, the others stand on it; ``queue_unit`` and ``queue`` are this project's own kinds,
from which the files under ``crds/`` are generated, with the bounds of ``field_schema``.
``compactor`` makes what caches keep small.

Not here: how an object is fetched (``shared_api.client``), and how one is changed: what was
decoded is never written back, writes are patches, since fields that are not listed here would be
lost.
"""
