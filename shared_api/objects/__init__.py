"""The Kubernetes objects that this project reads, as frozen values: one file per kind.

Each is a ``msgspec.Struct`` with only the fields that are read, camelCase on the wire. All others
build on ``meta``; ``queue_unit`` and ``queue`` are this project's own kinds, from which the files
under ``crds/`` are generated, with the bounds of ``field_schema``. ``compactor`` reduces the memory
that cached objects take.

Not here: how objects are fetched (``shared_api.client``) and changed. Decoded objects are never
written back, because fields that are not listed here would be lost: writes are patches.

Tested by ``tests/shared_api/objects``.
"""
