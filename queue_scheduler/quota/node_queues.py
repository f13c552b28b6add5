"""Which queue belongs to a node of an ElasticQuotaTree: names that follow from paths.

Upstream lets the server choose a suffix at random; a name that can be computed needs no index, and
is the same after a restart. `root/Team_A/b` is `root-team-a-b`. A path whose name is too long or no
name for an object, or is that of an earlier path, has a hash in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from queue_scheduler.quota.tree_specs import SEPARATOR

MAX_NAME: Final = 63
"""As long as a label's value may be, so that it fits into one. Upstream's are 58 and a suffix."""
_HASH_DIGITS: Final = 8
_ENDS: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME: Final = re.compile(rf"{_ENDS}([.]{_ENDS})*")
_OTHERS: Final = re.compile(r"[^a-z0-9]+")


def name_queues(paths: Iterable[str]) -> dict[str, str]:
    """Return the queue of each path; no two have the same."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for path in sorted(paths):
        name = path.lower().replace(SEPARATOR, "-").replace("_", "-")
        if name in taken or len(name) > MAX_NAME or not _OBJECT_NAME.fullmatch(name):
            name = _hashed(path, name)
        names[path] = name
        taken.add(name)
    return names


def _hashed(path: str, name: str) -> str:
    digits = sha256(path.encode()).hexdigest()[:_HASH_DIGITS]
    # The end says more than the beginning, which most paths share.
    kept = _OTHERS.sub("-", name)[-(MAX_NAME - _HASH_DIGITS - 1) :].strip("-")
    return f"{kept}-{digits}" if kept else digits
