from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType, ModuleType

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from queue_scheduler.quota_cache import quota_cache
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.tree_usage import NodeUsage
from shared_api.objects.meta import Uid
from shared_api.well_known_labels import (
    DEFAULT_QUOTA,
    QUOTA_IS_ROOT,
    QUOTA_NAME,
    QUOTA_NAMESPACES,
    QUOTA_TOTAL_RESOURCE,
    QUOTA_TREE_ID,
)
from tests.properties.quota_cases import build_quota, take_woken


def new_books(mode: QuotaMode = QuotaMode.MAX) -> QuotaCache:
    """Return two parents of max 10 and a child of max 8 below the first."""
    books = QuotaCache(QuotaSettings(mode=mode))
    for name in ("p", "r"):
        books.on_quota(build_quota(name, maximum={"x": 10}, is_parent=True))
    books.on_quota(build_quota("a", minimum={"x": 4}, maximum={"x": 8}, parent="p"))
    books.on_capacity({"x": 30})
    return books


def used(books: QuotaCache, name: str) -> int:
    view = books.view(name)
    assert view is not None
    return view.used.get("x", 0)


def test_booking_is_level_not_edge() -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 3}))
    books.book("u", "a", Demand({"x": 3}))
    assert (used(books, "a"), used(books, "p")) == (3, 3)
    books.book("u", "a", Demand({"x": 5}))
    assert (used(books, "a"), books.booking("u")) == (5, ("a", Demand({"x": 5})))
    books.book("u", "r", Demand({"x": 5}))
    assert (used(books, "p"), used(books, "r")) == (0, 5)
    books.release("u")
    books.release("u")
    assert (used(books, "r"), books.booking("u")) == (0, None)
    books.validate()


def test_bookings_go_over_any_limit() -> None:
    books = new_books()
    books.book("adopted", "a", Demand({"x": 99}))
    assert used(books, "p") == 99
    assert books.check("a", Demand({"x": 1})) is not None


def test_a_deleted_quota_finds_its_bookings_again() -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 3}))
    books.on_quota_gone("ns", "a", Uid("a"))
    refusal = books.check("a", Demand({"x": 1}))
    assert refusal is not None
    assert refusal.reason is Reason.UNKNOWN_QUOTA
    assert used(books, "p") == 0
    books.on_quota(build_quota("a", maximum={"x": 8}, parent="r"))
    assert (used(books, "a"), used(books, "r")) == (3, 3)
    books.validate()


def test_a_late_delete_of_an_earlier_object_is_nothing() -> None:
    books = new_books()
    books.on_quota(build_quota("a", maximum={"x": 9}, parent="p", uid="second"))
    books.on_quota_gone("ns", "a", Uid("a"))
    books.on_quota_gone("other", "a", Uid("second"))
    assert books.names() == ("a", "p", "r")


def test_units_before_their_quota_count_once_it_appears() -> None:
    books = new_books()
    books.book("u", "new", Demand({"x": 3}))
    books.on_quota(build_quota("new", maximum={"x": 4}))
    refusal = books.check("new", Demand({"x": 2}))
    assert refusal is not None
    assert refusal.missing == 1


def test_moving_a_quota_moves_its_use() -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 3}))
    books.on_quota(build_quota("a", maximum={"x": 8}, parent="r"))
    assert (used(books, "p"), used(books, "r"), books.chain("a")) == (0, 3, ("a", "r"))


def test_a_broken_chain_admits_nothing_until_repaired() -> None:
    books = new_books()
    books.on_quota(build_quota("p", maximum={"x": 10}, parent="a"))
    refusal = books.check("a", Demand({"x": 1}))
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.BROKEN_CHAIN, "a")
    view = books.view("a")
    assert view is not None
    assert (view.usable, [problem.kind for problem in view.problems]) == (False, ["Cycle"])
    assert (books.chain("a"), books.tree_id("a")) == ((), "")
    books.on_quota(build_quota("p", maximum={"x": 10}, is_parent=True))
    assert books.check("a", Demand({"x": 1})) is None
    assert not any(problem.fatal for problem in books.problems())


def test_bookings_on_a_broken_quota_still_take_nodes() -> None:
    books = new_books(QuotaMode.RUNTIME)
    books.book("u", "a", Demand({"x": 25}))
    books.on_foreign("pod", "a", {"x": 2}, bound=True)
    books.on_quota(build_quota("a", maximum={"x": 8}, parent="gone"))
    refusal = books.check("r", Demand({"x": 4}))
    assert refusal is not None
    assert (refusal.reason, refusal.used) == (Reason.NO_CAPACITY, 27)
    assert books.check("r", Demand({"x": 3})) is None
    books.validate()


def test_a_pod_of_an_unknown_quota_is_the_default_quotas() -> None:
    books = QuotaCache(QuotaSettings())
    books.on_quota(build_quota("c", maximum={"cpu": 9}))
    books.on_capacity({"cpu": 5000})
    books.on_foreign("pod", "new", {"cpu": 2000}, bound=True)
    books.on_foreign("pod", "new", {"cpu": 2000}, bound=True)
    refusal = books.check("c", Demand({"cpu": 4000}))
    assert refusal is not None
    assert (refusal.reason, refusal.limit) == (Reason.NO_CAPACITY, 3000)
    books.on_quota(build_quota("new", maximum={"cpu": 9}))
    assert used(books, DEFAULT_QUOTA) == 0
    assert books.check("c", Demand({"cpu": 3000})) is None
    books.validate()


def test_views_show_what_a_person_asks() -> None:
    books = new_books(QuotaMode.RUNTIME)
    books.book("u", "a", Demand({"x": 3, "unseen": 1}))
    books.on_foreign("pod", "a", {"x": 2})
    books.protect("a", Demand({"x": 1}))
    view = books.view("a")
    assert view is not None
    assert (view.booked, view.foreign, view.demand) == ({"x": 3, "unseen": 1}, {"x": 2}, {"x": 5})
    assert (view.runtime, view.limits, view.scaled_min) == ({"x": 5}, {"x": 8}, {"x": 4})
    assert (view.parent, view.children, view.lends) == ("p", (), True)
    parent = books.view("p")
    assert parent is not None
    assert (parent.children, parent.used, parent.request) == (("a",), {"x": 5}, {"x": 5})
    assert books.view("nobody") is None


def test_pods_and_namespaces_find_their_quota() -> None:
    books = new_books()
    books.on_quota(build_quota("b", annotations={QUOTA_NAMESPACES: '["ns1"]'}))
    assert books.quota_of_pod({QUOTA_NAME: "a"}, "ns1") == "a"
    assert books.quota_of_pod({}, "ns1") == "b"
    assert books.quota_of_pod({}, "elsewhere") == DEFAULT_QUOTA
    assert (books.quota_of_namespace("ns1"), books.quota_of_namespace("elsewhere")) == ("b", "")


def test_special_objects_give_their_max_and_get_no_name() -> None:
    books = QuotaCache(QuotaSettings(mode=QuotaMode.MAX))
    books.on_quota(build_quota(DEFAULT_QUOTA, maximum={"x": 5}))
    assert books.names() == ()
    assert books.check(DEFAULT_QUOTA, Demand({"x": 5})) is None
    assert books.check(DEFAULT_QUOTA, Demand({"x": 6})) is not None


def test_trees_have_totals_of_their_own() -> None:
    books = QuotaCache(QuotaSettings(multi_quota_tree=True))
    labels = {QUOTA_TREE_ID: "t", QUOTA_IS_ROOT: "true"}
    total = {QUOTA_TOTAL_RESOURCE: '{"x":30}'}
    books.on_quota(
        build_quota("t-root", maximum={"x": 99}, is_parent=True, labels=labels, annotations=total)
    )
    books.on_quota(build_quota("t-a", maximum={"x": 99}, parent="t-root"))
    books.on_quota(build_quota("d", maximum={"x": 99}))
    books.on_capacity({"x": 100})
    assert (books.tree_id("t-a"), books.tree_id("d")) == ("t", "")
    assert books.check("t-a", Demand({"x": 30})) is None
    assert books.check("t-a", Demand({"x": 31})) is not None
    assert books.check("d", Demand({"x": 70})) is None
    assert books.check("d", Demand({"x": 71})) is not None


@pytest.mark.parametrize(
    ("change", "is_woken"),
    [
        pytest.param(lambda books: books.release("u"), True, id="a release"),
        pytest.param(lambda books: books.release("far"), False, id="a release elsewhere"),
        pytest.param(lambda books: books.book("v", "r", Demand({"x": 1})), False, id="a start"),
        pytest.param(lambda books: books.book("u", "a", Demand({"x": 6})), False, id="too little"),
        pytest.param(lambda books: books.book("u", "a", Demand({"x": 5})), True, id="a resize"),
        pytest.param(
            lambda books: books.on_quota(build_quota("a", maximum={"x": 10}, parent="p")),
            True,
            id="an edit",
        ),
        pytest.param(
            lambda books: books.on_quota(
                build_quota("a", minimum={"x": 4}, maximum={"x": 8}, parent="p")
            ),
            False,
            id="an edit that changes nothing",
        ),
        pytest.param(lambda books: books.stop_waiting("w"), False, id="he left"),
    ],
)
def test_waking(change: Callable[[QuotaCache], None], *, is_woken: bool) -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 7}))
    books.book("far", "r", Demand({"x": 7}))
    demand = Demand({"x": 3})
    refusal = books.check("a", demand)
    assert refusal is not None
    books.wait("w", "a", demand, refusal)
    assert take_woken(books) == []
    change(books)
    assert take_woken(books) == (["w"] if is_woken else [])
    assert take_woken(books) == []


def test_waking_one_by_one_looks_again_at_the_room() -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 8}))
    demand = Demand({"x": 5})
    for waiter, rank in (("second", (2,)), ("first", (1,)), ("third", (3,))):
        refusal = books.check("a", demand)
        assert refusal is not None
        books.wait(waiter, "a", demand, refusal, rank)
    books.release("u")
    assert take_woken(books, 1) == ["first"]
    books.book("first", "a", demand)
    assert take_woken(books, 1) == []
    books.release("first")
    assert take_woken(books) == ["second", "third"]


def test_a_fork_wakes_on_its_own() -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 8}))
    demand = Demand({"x": 5})
    refusal = books.check("a", demand)
    assert refusal is not None
    books.wait("w", "a", demand, refusal)
    fork = books.fork()
    fork.release("u")
    assert take_woken(fork) == ["w"]
    assert take_woken(books) == []
    assert books.booking("u") is not None


def forked_books(mode: QuotaMode) -> QuotaCache:
    """Books with a parent, a quota without weight, a foreign pod, an owner and one who waits."""
    books = QuotaCache(QuotaSettings(mode=mode))
    books.on_quota(build_quota("p", minimum={"x": 6}, maximum={"x": 8}, is_parent=True))
    books.on_quota(build_quota("a", minimum={"x": 6}, maximum={"x": 8}, parent="p"))
    books.on_quota(build_quota("z", maximum={"x": 8}, weight={"x": 0, "y": 1}, parent="p"))
    books.on_capacity({"x": 10})
    books.book("u", "z", Demand({"x": 4}))
    books.book("v", "z", Demand({"x": 1}))
    books.on_foreign("pod", "a", {"x": 1}, bound=True)
    books.protect("a", Demand({"x": 4}))
    demand = Demand({"x": 5})
    refusal = books.check("a", demand)
    assert refusal is not None
    books.wait("w", "a", demand, refusal)
    books.release("v")
    return books


MODES = pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.RUNTIME])


@MODES
def test_the_first_question_to_a_fork_builds_no_tree(
    mode: QuotaMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = forked_books(mode)
    fork = books.fork()
    with monkeypatch.context() as patched:
        patched.delattr(quota_cache, "build_usage_trees")
        assert fork.check("a", Demand({"x": 5})) == books.check("a", Demand({"x": 5}))
        assert fork.view("z") == books.view("z")
        assert fork.stirred_domains() == books.stirred_domains()
        fork.release("u")
        assert take_woken(fork) == ["w"]
        assert take_woken(books) == []
    fork.validate()
    books.validate()


@MODES
def test_a_fork_has_no_books_of_the_other(mode: QuotaMode) -> None:
    books = forked_books(mode)
    assert books.check("a", Demand({"x": 5})) is not None  # what it remembers is not copied
    fork = books.fork()
    ours, theirs = books.trees, fork.trees
    others = {id(node) for node in books_of(books)}
    assert others.isdisjoint(id(node) for node in books_of(fork))
    for tree in theirs.trees.values():
        nodes = [tree.root, tree.orphans, *tree.nodes.values()]
        found = [*tree.special.values(), *theirs.books.values()]
        for node in nodes:
            parents = [] if node.parent is None else [node.parent]
            found += [*node.chain, *node.children, *parents]
        assert {id(node) for node in found} <= {id(node) for node in nodes}
        assert others.isdisjoint(id(node) for node in nodes)
        assert all(node.tree is tree for node in nodes)
        assert all(map(is_complete, (*nodes, tree, tree.changes)))
        other = ours.trees[tree.tree.tree_id]
        assert [(n.name, [c.name for c in n.children]) for n in tree.nodes.values()] == [
            (n.name, [c.name for c in n.children]) for n in other.nodes.values()
        ]
        assert tree.changes.touched == other.changes.touched
        assert tree.changes.clock == other.changes.clock
    for walk in theirs.walks.values():
        assert all(map(is_complete, (walk, walk.division, walk.plain, walk.levels)))
        assert walk.plain.has_weak(theirs.books["p"], "x")
    assert bool(theirs.walks) is (mode is QuotaMode.RUNTIME)


def is_complete(part: object) -> bool:
    return all(hasattr(part, field) for field in vars(type(part))["__slots__"])


def books_of(cache: QuotaCache) -> list[NodeUsage]:
    """Return all books that are reached from a cache, whoever refers to them."""
    found: dict[int, object] = {}
    new: list[object] = [cache]
    while new:
        one = new.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType):
            found[id(one)] = one
            new += gc.get_referents(one)
    return [one for one in found.values() if isinstance(one, NodeUsage)]


def test_validate_tells_the_story() -> None:
    books = new_books()
    books.book("u", "a", Demand({"x": 3}))
    books.trees.books["p"].used["x"] += 1
    with pytest.raises(AssertionError, match=r"'p': used is \{'x': 4\}, should be \{'x': 3\}"):
        books.validate()


def test_waiting_with_the_gate_for_used_amounts() -> None:
    books = QuotaCache(QuotaSettings(guarantee_usage=True, cap_by_total=False))
    for name in "ab":
        books.on_quota(build_quota(name, minimum={"x": 4}, maximum={"x": 10}))
    books.on_capacity({"x": 10})
    books.book("one", "a", Demand({"x": 6}))
    for waiter in ("w", "twin"):
        refusal = books.check("b", Demand({"x": 5}))
        assert refusal is not None
        books.wait(waiter, "b", Demand({"x": 5}), refusal)
    books.book("two", "a", Demand({"x": 1}))
    assert take_woken(books) == []
    books.release("one")
    assert take_woken(books) == ["w", "twin"]
