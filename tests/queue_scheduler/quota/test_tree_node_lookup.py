"""Which node a unit names, and what a change of the tree resolves differently."""

from __future__ import annotations

import pytest

from queue_scheduler.quota.tree_node_lookup import MAX_LABELS, FoundNode, TreeNodeLookup

NODES: dict[str, tuple[str, ...]] = {
    "root": (),
    "root/a": ("ns-a",),
    "root/a/x": (),
    "root/b": (),
    "root/b/x": ("ns-x",),
    "root/b/y": ("*",),
}


def nodes(*, checks_available: bool = False) -> TreeNodeLookup:
    built = TreeNodeLookup(checks_available=checks_available)
    built.put(NODES)
    return built


@pytest.mark.parametrize(
    ("label", "namespace", "want"),
    [
        pytest.param("a", "any", ("root/a",), id="its own name"),
        pytest.param("root/b/x", "any", ("root/b/x",), id="its path"),
        pytest.param("root", "any", ("root",), id="the root"),
        pytest.param("x", "any", ("root/a/x", "root/b/x"), id="a name of two"),
        pytest.param("z", "ns-a", (), id="a name of none, whatever the namespace"),
        pytest.param("", "ns-x", ("root/b/x",), id="the namespace"),
        pytest.param("", "other", ("root/b/y",), id="any namespace"),
    ],
)
def test_look_up(label: str, namespace: str, want: tuple[str, ...]) -> None:
    assert nodes().look_up(label, namespace).paths == want


def test_the_queue_is_that_of_the_node() -> None:
    assert nodes().look_up("y", "any") == FoundNode(("root/b/y",), "root-b-y")


@pytest.mark.parametrize(
    ("listed", "label", "namespace", "want"),
    [
        pytest.param(None, "a", "n", False, id="lists nothing"),
        pytest.param("b, a", "a", "n", True, id="lists its name"),
        pytest.param("root/a", "a", "n", True, id="lists its path"),
        pytest.param("*", "a", "n", True, id="lists all"),
        pytest.param("b", "a", "n", False, id="lists another"),
        pytest.param(None, "a", "ns-a", True, id="the node lists the namespace"),
        pytest.param(None, "y", "n", True, id="the node lists all namespaces"),
        pytest.param(None, "y", "ns-x", True, id="and one that another node lists by name"),
    ],
)
def test_a_namespace_lists_what_its_units_may_name(
    listed: str | None, label: str, namespace: str, want: bool
) -> None:
    found = nodes(checks_available=True)
    if listed is not None:
        found.put_namespace(namespace, {"koord-queue/available-quota-in-namespace": listed})
    assert found.look_up(label, namespace).is_available is want
    assert nodes().look_up(label, namespace).is_available, "only where it is required"


def test_a_change_names_the_namespaces_whose_look_ups_change() -> None:
    found = nodes()
    for label, namespace in (("x", "one"), ("y", "two"), ("", "ns-x"), ("a", "three")):
        found.look_up(label, namespace)
    moved = {**NODES, "root/c": (), "root/c/y": ("ns-x",)}
    del moved["root/b/y"]
    names = found.put({**moved, "root/b/x": ()})
    assert names == (
        "namespace/ns-x",
        "namespace/two",
        "quota/root/b/y",
        "quota/root/c",
        "quota/root/c/y",
    )
    assert found.put({**moved, "root/b/x": ()}) == (), "the same again is no change"


def test_a_changed_list_names_its_namespace_if_that_matters() -> None:
    found = nodes(checks_available=True)
    found.look_up("a", "n")
    listed = {"koord-queue/available-quota": "a"}
    assert found.put_namespace("n", listed) == ("namespace/n",)
    assert found.put_namespace("n", listed) == ()
    assert found.put_namespace("unseen", listed) == ()
    assert found.put_namespace("n", {}) == ("namespace/n",)


def test_a_namespace_of_too_many_names_is_always_affected() -> None:
    found = nodes()
    for number in range(MAX_LABELS + 1):
        found.look_up(f"name-{number}", "n")
    assert found.put(NODES) == ("namespace/n",)


RIVALS: dict[str, tuple[str, ...]] = {"root": (), "root/a/b": ("one",), "root/a-b": ()}


def test_a_node_keeps_the_queue_that_names_it() -> None:
    found = nodes()
    found.put({"root": (), "root/a/b": ("one",)})
    assert found.put_queue("root-a-b", "root/a/b") == (), "as assumed before"
    assert found.look_up("", "one").queue == "root-a-b"
    assert found.put(RIVALS) == ("quota/root/a-b",)
    assert found.look_up("", "one").queue == "root-a-b"
    assert found.look_up("a-b", "two").queue != "root-a-b"


def test_queue_and_tree_may_arrive_in_either_order() -> None:
    found, later = nodes(), nodes()
    found.put_queue("root-a-b", "root/a/b")
    found.put(RIVALS)
    later.put(RIVALS)
    later.look_up("", "one")
    later.look_up("root", "two")
    names = later.put_queue("root-a-b", "root/a/b")
    assert names == ("namespace/one", "quota/root/a-b", "quota/root/a/b")
    for label in ("a-b", "b"):
        assert later.look_up(label, "n") == found.look_up(label, "n")


def test_a_queue_that_is_repeated_or_deleted() -> None:
    found = nodes()
    found.put(RIVALS)
    assert found.put_queue("root-a-b", None) == ()
    assert found.put_queue("root-a-b", "root/a-b") == ()
    assert found.put_queue("root-a-b", "root/a/b") == ("quota/root/a-b", "quota/root/a/b")
    assert found.put_queue("root-a-b", "root/a/b") == ()
    assert found.put_queue("root-a-b", None) == ("quota/root/a-b", "quota/root/a/b")
    assert found.look_up("a-b", "n").queue == "root-a-b"
    assert found.put_queue("other", "root/a/b") == (), "not one of their names"


def test_a_fork_is_independent() -> None:
    with_queues = nodes()
    with_queues.put(RIVALS)
    other = with_queues.fork()
    moved = ("quota/root/a-b", "quota/root/a/b")
    assert other.put_queue("root-a-b", "root/a/b") == moved
    assert with_queues.put_queue("root-a-b", "root/a/b") == moved
    found = nodes()
    fork = found.fork()
    fork.look_up("a", "n")
    fork.put({})
    assert found.look_up("a", "n").paths == ("root/a",)
    assert found.put({}) != ()
