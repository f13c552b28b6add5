"""Which queue stands above another, for settings that queues inherit. Pure.

A queue that was made for a quota names the quota above in a label, whose queue has its name; one
that was made for a node of an ElasticQuotaTree names the node above. Administrators may set the
same label on their own queues.
"""

from __future__ import annotations

from collections.abc import Iterator

from queue_scheduler.queueing.queue_set import QueueSet
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue
from queue_scheduler.quota.tree_queue_names import named_node, possible_names
from shared_api.well_known_labels import PARENT_QUOTA_FULLNAME, QUOTA_PARENT, read_annotation


def with_parents(queues: QueueSet, name: str) -> Iterator[SchedulingQueue]:
    """Yield a queue, if it exists, and those above it, the nearest first; each once."""
    queue, seen = queues.find(name), {name}
    while queue is not None:
        yield queue
        queue = _find_parent(queues, queue)
        if queue is None or queue.name in seen:
            return
        seen.add(queue.name)


def _find_parent(queues: QueueSet, queue: SchedulingQueue) -> SchedulingQueue | None:
    meta = queue.rules.api_object.metadata
    parent = meta.labels.get(QUOTA_PARENT)
    if parent:
        return queues.find(parent)
    path = read_annotation(meta.annotations, PARENT_QUOTA_FULLNAME)
    if not path:
        return None
    for name in possible_names(path):
        found = queues.find(name)
        if found is not None and named_node(found.rules.api_object) == path:
            return found
    return None
