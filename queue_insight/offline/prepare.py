"""A dump as a file for a bug report: with or without names, compressed or not."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from queue_insight.dump.anonymize import anonymize
from queue_insight.dump.codec import decode_dump, encode_dump
from queue_insight.offline.load import read_dump
from shared_api.version import VERSION


class Prepared(NamedTuple):
    """A file, and what is in it."""

    data: bytes
    units: int
    queues: int
    has_names: bool


def prepare(source: Path | bytes, *, key: str | None, compress: bool) -> Prepared:
    """Return a dump as it is to be saved.

    Args:
        source: A file, or what a scheduler has sent.
        key: Names are replaced, and marked with a hash by this key; "": without a mark. None: they
            are left.
        compress: Whether it is compressed.

    Raises:
        DumpError: It cannot be read.
    """
    dump = read_dump(source) if isinstance(source, Path) else decode_dump(source, VERSION)
    if key is not None:
        dump = anonymize(dump, key)
    data = encode_dump(dump, compress=compress)
    return Prepared(data, len(dump.units), len(dump.queues), not dump.anonymized)
