"""Which queue stands above another: by the label of queues of quotas, and by paths of nodes."""

from __future__ import annotations

from queue_scheduler.queueing.parent_queues import with_parents
from queue_scheduler.queueing.queue_policies import PRIORITY
from queue_scheduler.queueing.queue_set import QueueSet
from shared_api.testing.object_builders import queue
from shared_api.well_known_labels import PARENT_QUOTA_FULLNAME, QUOTA_FULLNAME, QUOTA_PARENT


def chain(queues: QueueSet, name: str) -> list[str]:
    return [each.name for each in with_parents(queues, name)]


def put(queues: QueueSet, name: str, parent: str = "", **said: str) -> None:
    labels = {QUOTA_PARENT: parent} if parent else {}
    made = queue(name, metadata={"labels": labels, "annotations": said})
    queues.put(made, PRIORITY, (0, 0))


def test_queues_of_quotas_name_the_quota_above() -> None:
    queues = QueueSet()
    put(queues, "leaf", "team")
    put(queues, "team", "org")
    assert chain(queues, "leaf") == ["leaf", "team"], "org has no queue"
    put(queues, "org")
    assert chain(queues, "leaf") == ["leaf", "team", "org"]
    assert chain(queues, "nobody") == []


def test_a_circle_ends() -> None:
    queues = QueueSet()
    put(queues, "one", "two")
    put(queues, "two", "one")
    put(queues, "self", "self")
    assert chain(queues, "one") == ["one", "two"]
    assert chain(queues, "self") == ["self"]


def test_queues_of_nodes_name_the_path_above() -> None:
    queues = QueueSet()
    put(queues, "root-a", **{QUOTA_FULLNAME: "root/a"})
    said = {QUOTA_FULLNAME: "root/a/b", PARENT_QUOTA_FULLNAME: "root/a"}
    put(queues, "root-a-b", **said)
    assert chain(queues, "root-a-b") == ["root-a-b", "root-a"]
    put(queues, "root-a", **{QUOTA_FULLNAME: "root-a"})
    assert chain(queues, "root-a-b") == ["root-a-b"], "the queue of that name is of another node"
