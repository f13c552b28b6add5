"""Which queue belongs to a node of an ElasticQuotaTree: names that follow from paths.

Upstream lets the server choose a random suffix; a name that can be computed needs no index.
`root/Team_A/b` is `root-team-a-b`, its *plain* name. If the plain name of a path is too long or not
a valid object name, its name has a hash. So have all but one of the paths with the same plain name
(*rivals*: `root/a/b` and `root/a-b`)::

    a queue of its hashed name exists          the node stays with it
    the plain queue says that it is the node's the node stays with it
    neither                                    the first by path has the plain name, if it is free

A queue keeps its node as long as both exist, whichever others come or go: what users have set on
it, above all a stop, never moves to another node. The queues' own statements are in the cluster, so
the answer is the same after a restart, and does not depend on whether queue or tree arrives first.
A statement that names none of the rivals is ignored: a node that is gone leaves its queue to the
next of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final

from queue_scheduler.quota.quota_tree_spec import SEPARATOR
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import QUOTA_FULLNAME, read_annotation

MAX_NAME: Final = 63
"""The limit of a label value, so that the name fits into one. Upstream has 58 and a suffix."""
_HASH_DIGITS: Final = 8
_ENDS: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_OBJECT_NAME: Final = re.compile(rf"{_ENDS}([.]{_ENDS})*")
_OTHERS: Final = re.compile(r"[^a-z0-9]+")

NodeOf = Callable[[str], str | None]
"""Returns the path of the node that a queue names as its own, by the queue's name.

"" if it names none; None if there is no such queue.
"""


def named_node(queue: Queue) -> str:
    """Return the path of the node that a queue says it belongs to, or ""."""
    return read_annotation(queue.metadata.annotations, QUOTA_FULLNAME) or ""


def possible_names(path: str) -> tuple[str, str]:
    """Return the names that the queue of a node may have."""
    plain = _build_plain(path)
    return plain, _build_hashed(path, plain)


class TreeQueueNames:
    """The possible names of the queues of some nodes; immutable.

    Args:
        paths: Paths of the nodes.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        rivals: dict[str, list[str]] = {}
        self._hashed: dict[str, str] = {}
        self._plain_of: dict[str, str] = {}
        for path in sorted(paths):
            plain = _build_plain(path)
            hashed = _build_hashed(path, plain)
            rivals.setdefault(plain, []).append(path)
            self._hashed[path] = hashed
            self._plain_of[hashed] = plain
        self._rivals = rivals

    def name_all(self, node_of: NodeOf) -> dict[str, str]:
        """Return the queue name of each path, by path; all are different."""
        named: dict[str, str] = {}
        for plain in self._rivals:
            named.update(self._name(plain, node_of))
        return {path: named[path] for path in self._hashed}

    def name_rivals(self, name: str, node_of: NodeOf) -> dict[str, str]:
        """Return the queues of the nodes whose names depend on the queue of this name."""
        return self._name(self._plain_of.get(name, name), node_of)

    def plain_beside(self, name: str) -> str:
        """Return the plain name of the node that a hashed name belongs to; "" if there is none."""
        plain = self._plain_of.get(name, "")
        return plain if _is_name(plain) else ""

    def _name(self, plain: str, node_of: NodeOf) -> dict[str, str]:
        rivals = self._rivals.get(plain, ())
        free = [path for path in rivals if node_of(self._hashed[path]) is None]
        first: str | None = None
        if free and _is_name(plain):
            owner = node_of(plain)
            first = owner if owner in free else free[0]
        return {path: plain if path == first else self._hashed[path] for path in rivals}


def _is_name(plain: str) -> bool:
    return len(plain) <= MAX_NAME and _OBJECT_NAME.fullmatch(plain) is not None


def _build_plain(path: str) -> str:
    return path.lower().replace(SEPARATOR, "-").replace("_", "-")


def _build_hashed(path: str, plain: str) -> str:
    digits = sha256(path.encode()).hexdigest()[:_HASH_DIGITS]
    # The end of a path identifies it better than the beginning, which most paths share.
    kept = _OTHERS.sub("-", plain)[-(MAX_NAME - _HASH_DIGITS - 1) :].strip("-")
    return f"{kept}-{digits}" if kept else digits
