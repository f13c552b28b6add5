"""A queue for every node, and `default`: created, kept in step, deleted; users' are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.queue_objects.queue_reconciler import CreateQueue, DeleteQueue, PatchQueue
from queue_scheduler.queue_objects.tree_queues import DefaultQueue, TreeQueues
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.queue import Queue
from shared_api.testing.object_builders import elastic_quota_tree, queue, tree_node

FULLNAME, PARENT = "koord-queue/quota-fullname", "koord-queue/parent-quota-fullname"
OURS = {"create-by-koordqueue": "true"}
NAMESPACE = "koord-queue"


def tree(*names: str, created: str = "", name: str = "t") -> ElasticQuotaTree:
    metadata = {"uid": name, "creationTimestamp": created, "resourceVersion": "1"}
    children = (tree_node(child) for child in names)
    return elastic_quota_tree(tree_node("r", *children), name=name, metadata=metadata)


class Room:
    """The cache of trees, and its queues."""

    def __init__(self, *trees: ElasticQuotaTree, policy: str = "") -> None:
        self.store: IndexedStore[ElasticQuotaTree] = IndexedStore()
        for each in trees:
            self.store.put_observed(each)
        self.is_complete = True
        self.found: dict[str, Queue] = {}
        self.queues = TreeQueues(self.store, lambda: self.is_complete, self.found.get, policy)

    def decide(self, name: str, found: Queue | None = None) -> Any:
        return self.queues.decide(name, NAMESPACE, found)

    def make(self, name: str) -> dict[str, str]:
        """Create a missing queue, and return its annotations."""
        action = self.decide(name)
        assert isinstance(action, CreateQueue), f"{name}: {action}"
        annotations: dict[str, str] = action.body["metadata"]["annotations"]
        self.found[name] = queue(name, metadata={"labels": OURS, "annotations": annotations})
        return annotations


def ours(path: str, parent: str = "", **more: Any) -> Queue:
    annotations = {FULLNAME: path, **({PARENT: parent} if parent else {})}
    meta = {"uid": "q1", "labels": OURS, "annotations": annotations, **more.pop("metadata", {})}
    return queue("root-a", metadata=meta, **more)


def test_every_node_has_a_queue_that_names_it() -> None:
    room = Room(tree("a", "root.b"))
    names: list[str] = []
    room.queues.on_tree(names.append)(None, None)
    assert {name: room.make(name) for name in names} == {
        "root": {FULLNAME: "root"},
        "root-a": {FULLNAME: "root/a", PARENT: "root"},
        "root-root.b": {FULLNAME: "root/root.b", PARENT: "root"},
    }


@pytest.mark.parametrize(("policy", "want"), [("", "Priority"), ("Block", "Block")])
def test_a_missing_queue_is_created(policy: str, want: str) -> None:
    action = Room(tree("a"), policy=policy).decide("root-a")
    assert isinstance(action, CreateQueue)
    assert action.body["metadata"] == {
        "name": "root-a",
        "namespace": NAMESPACE,
        "labels": OURS,
        "annotations": {FULLNAME: "root/a", PARENT: "root"},
    }
    assert action.body["spec"] == {"queuePolicy": want}


@pytest.mark.parametrize(
    ("policy", "found", "want"),
    [
        pytest.param("", ours("root/a", "root"), None, id="in step"),
        pytest.param(
            "", ours("root/a", "root", policy="Block"), None, id="the policy is its users'"
        ),
        pytest.param(
            "Block",
            ours("root/a", "root"),
            {"spec": {"queuePolicy": "Block"}, "metadata": {"uid": "q1"}},
            id="except for what the environment sets",
        ),
        pytest.param(
            "",
            ours("root/other"),
            {"metadata": {"uid": "q1", "annotations": {FULLNAME: "root/a", PARENT: "root"}}},
            id="another node has its name now",
        ),
        pytest.param("Block", queue("root-a"), None, id="another owner's"),
    ],
)
def test_a_queue_of_ours_is_kept_in_step(policy: str, found: Queue, want: Any) -> None:
    action = Room(tree("a"), policy=policy).decide("root-a", found)
    assert (action.body if isinstance(action, PatchQueue) else action) == want


NESTED, BESIDE = tree_node("a", tree_node("b")), tree_node("a-b")
"""`root/a/b` and `root/a-b`: the plain name of both is `root-a-b`."""


def edited(version: int, *nodes: Any) -> ElasticQuotaTree:
    meta = {"uid": "t", "resourceVersion": str(version)}
    return elastic_quota_tree(tree_node("r", *nodes), name="t", metadata=meta)


def test_a_queue_keeps_its_node_when_another_gets_its_name() -> None:
    room = Room(edited(1, NESTED))
    assert room.make("root-a-b")[FULLNAME] == "root/a/b"
    room.store.put_observed(edited(2, NESTED, BESIDE))
    looked: list[str] = []
    room.queues.on_tree(looked.append)(None, None)
    (name,) = set(looked) - {"root", "root-a", "root-a-b"}
    assert room.decide("root-a-b", room.found["root-a-b"]) is None
    assert room.make(name) == {FULLNAME: "root/a-b", PARENT: "root"}
    room.store.put_observed(edited(3, BESIDE))
    assert room.queues.wants(name), "it stays where it is"
    assert isinstance(room.decide("root-a-b", room.found["root-a-b"]), DeleteQueue)


def test_an_annotation_edited_by_hand_is_corrected() -> None:
    room = Room(edited(1, NESTED))
    room.make("root-a-b")
    room.store.put_observed(edited(2, NESTED, BESIDE))
    looked: list[str] = []
    room.queues.on_tree(looked.append)(None, None)
    for name in set(looked) - room.found.keys():
        room.make(name)
    for wrong in ("root/a-b", "root/gone", ""):
        room.found["root-a-b"] = ours(wrong, "root/a")
        action = room.decide("root-a-b", room.found["root-a-b"])
        assert isinstance(action, PatchQueue)
        assert action.body["metadata"]["annotations"] == {FULLNAME: "root/a/b"}


def test_no_other_name_is_given_before_the_owner_of_the_plain_one_is_known() -> None:
    room = Room(edited(1, NESTED, BESIDE))
    looked: list[str] = []
    room.queues.on_tree(looked.append)(None, None)
    (name,) = set(looked) - {"root", "root-a", "root-a-b"}
    assert room.queues.wants(name)
    assert room.decide(name) is None
    room.make("root-a-b")
    looked.clear()
    room.queues.on_queue(looked.append)(None, room.found["root-a-b"])
    assert set(looked) == {"root-a-b", name}
    assert room.make(name)[FULLNAME] == "root/a/b"


def test_a_queue_with_the_same_annotations_affects_no_other() -> None:
    room = Room(edited(1, NESTED, BESIDE))
    looked: list[str] = []
    handler = room.queues.on_queue(looked.append)
    room.make("root-a-b")
    before = room.found["root-a-b"]
    handler(before, before)
    assert looked == []
    other = queue("root-a-b", metadata={"annotations": {FULLNAME: "root/a/b"}})
    room.found["root-a-b"] = other
    handler(before, other)
    moved = set(looked)
    looked.clear()
    del room.found["root-a-b"]
    handler(other, None)
    assert moved != set(looked), "each of the two has been the one beside it"
    assert moved & set(looked) == {"root-a-b"}


def test_a_queue_is_deleted_with_its_node_if_it_is_ours() -> None:
    room = Room(tree("b"))
    assert not room.queues.wants("root-a")
    assert room.queues.has_made(ours("root/a"))
    assert room.decide("root-a", ours("root/a")) == DeleteQueue(ours("root/a").metadata.uid)
    assert not room.queues.has_made(queue("root-a", metadata={"annotations": {FULLNAME: "x"}}))
    assert room.decide("root-a") is None
    deleting = ours("root/a", metadata={"deletionTimestamp": "2026-11-01T00:00:00Z"})
    assert room.decide("root-a", deleting) is None


def test_of_several_trees_the_oldest_counts() -> None:
    young = tree("young", created="2026-11-02T00:00:00Z", name="y")
    room = Room(young)
    assert room.queues.wants("root-young")
    room.store.put_observed(tree("old", created="2026-11-01T00:00:00Z", name="o"))
    assert room.queues.wants("root-old")
    assert not room.queues.wants("root-young")
    looked: list[str] = []
    room.queues.on_tree(looked.append)(tree("gone"), None)
    assert set(looked) == {"root", "root-gone", "root-old", "root-young"}


def test_a_queue_of_an_unknown_node_may_be_wanted() -> None:
    room = Room()
    room.is_complete = False
    assert not room.queues.is_complete()


def test_the_default_queue_is_created_and_left_alone() -> None:
    source = DefaultQueue()
    assert source.wants("default")
    assert not source.wants("other")
    action = source.decide("default", NAMESPACE, None)
    assert isinstance(action, CreateQueue)
    assert action.body["metadata"]["labels"] == OURS
    found = queue("default", policy="Block")
    assert source.decide("default", NAMESPACE, found) is None
    assert not source.has_made(found)
    assert source.is_complete()
