from __future__ import annotations

import gc
from collections.abc import Callable
from types import FunctionType, ModuleType

import pytest

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaKind, QuotaMode, QuotaSettings
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota_cache import quota_cache
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from queue_scheduler.quota_cache.tree_usage import NodeUsage
from shared_api.objects.elastic_quota import ElasticQuota
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


def new_quotas(mode: QuotaMode = QuotaMode.MAX) -> QuotaCache:
    """Return two parents of max 10 and a child of max 8 below the first."""
    quotas = QuotaCache(QuotaSettings(mode=mode))
    for name in ("p", "r"):
        quotas.on_quota(build_quota(name, maximum={"x": 10}, is_parent=True))
    quotas.on_quota(build_quota("a", minimum={"x": 4}, maximum={"x": 8}, parent="p"))
    quotas.on_capacity({"x": 30})
    return quotas


def used(quotas: QuotaCache, name: str) -> int:
    view = quotas.view(name)
    assert view is not None
    return view.used.get("x", 0)


def test_charging_is_level_not_edge() -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 3}))
    quotas.charge("u", "a", Demand({"x": 3}))
    assert (used(quotas, "a"), used(quotas, "p")) == (3, 3)
    quotas.charge("u", "a", Demand({"x": 5}))
    assert (used(quotas, "a"), quotas.charge_of("u")) == (5, ("a", Demand({"x": 5})))
    quotas.charge("u", "r", Demand({"x": 5}))
    assert (used(quotas, "p"), used(quotas, "r")) == (0, 5)
    quotas.release("u")
    quotas.release("u")
    assert (used(quotas, "r"), quotas.charge_of("u")) == (0, None)
    quotas.validate()


@pytest.mark.parametrize(
    "settings",
    [
        *(QuotaSettings(mode=mode) for mode in QuotaMode),
        QuotaSettings(mode=QuotaMode.MAX, kind=QuotaKind.RESOURCE_QUOTA),
        QuotaSettings(mode=QuotaMode.MAX, kind=QuotaKind.TREE),
    ],
    ids=lambda settings: f"{settings.kind.value}, {settings.mode.value}",
)
@pytest.mark.parametrize("quota", ["a", "in a loop"])
def test_resources_of_what_is_gone_are_not_kept(settings: QuotaSettings, quota: str) -> None:
    """A user may name thousands of resources, in units and in pods that live for a moment."""
    quotas = QuotaCache(settings)
    kept = {"x": 1} if settings.kind is QuotaKind.TREE else {}
    quotas.put_specs(
        [
            QuotaSpec(name="p", max={"x": 10}, is_parent=True),
            QuotaSpec(name="a", min=kept, kept=kept, max={"x": 8}, parent="p"),
            QuotaSpec(name="in a loop", max={"x": 8}, parent="in a loop"),
        ]
    )
    quotas.charge("stays", "a", Demand({"x": 1}))
    quotas.check("a", Demand({"x": 1}))
    wide = {f"r{n}": 1 for n in range(1000)} | {"x": 1}
    for stage in PodStage:
        quotas.on_foreign("pod", quota, wide, stage=stage, non_preemptible=True)
    quotas.charge("unit", quota, Demand(wide, non_preemptible=True))
    quotas.check_without("a", Demand({"x": 1}), ["unit"], [("a", Demand(wide))])
    quotas.release("unit")
    quotas.on_foreign("pod", quota, None)
    assert kept_resources(quotas) <= {"x"}
    quotas.validate()


def kept_resources(quotas: QuotaCache) -> set[str]:
    """Return the resources that any sum of the default tree has a key for."""
    tree = quotas.trees.trees[""]
    found = {*tree.committed, *tree.remaining, *tree.changes.keys}
    for node in (tree.root, tree.orphans, *tree.nodes.values()):
        found.update(node.own, node.used, node.np_used, node.pending)
        found.update(node.asked, node.limited, node.active, node.claimed)
    return found


def test_charges_may_exceed_any_limit() -> None:
    quotas = new_quotas()
    quotas.charge("adopted", "a", Demand({"x": 99}))
    assert used(quotas, "p") == 99
    assert quotas.check("a", Demand({"x": 1})) is not None


def test_a_recreated_quota_finds_its_charges_again() -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 3}))
    quotas.on_quota_gone("ns", "a", Uid("a"))
    refusal = quotas.check("a", Demand({"x": 1}))
    assert refusal is not None
    assert refusal.reason is Reason.UNKNOWN_QUOTA
    assert used(quotas, "p") == 0
    quotas.on_quota(build_quota("a", maximum={"x": 8}, parent="r"))
    assert (used(quotas, "a"), used(quotas, "r")) == (3, 3)
    quotas.validate()


def test_a_late_delete_of_an_earlier_object_is_ignored() -> None:
    quotas = new_quotas()
    quotas.on_quota(build_quota("a", maximum={"x": 9}, parent="p", uid="second"))
    quotas.on_quota_gone("ns", "a", Uid("a"))
    quotas.on_quota_gone("other", "a", Uid("second"))
    assert quotas.stated.names() == ("a", "p", "r")


def test_units_before_their_quota_count_once_it_appears() -> None:
    quotas = new_quotas()
    quotas.charge("u", "new", Demand({"x": 3}))
    quotas.on_quota(build_quota("new", maximum={"x": 4}))
    refusal = quotas.check("new", Demand({"x": 2}))
    assert refusal is not None
    assert refusal.missing == 1


def test_moving_a_quota_moves_its_use() -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 3}))
    quotas.on_quota(build_quota("a", maximum={"x": 8}, parent="r"))
    assert (used(quotas, "p"), used(quotas, "r"), quotas.chain("a")) == (0, 3, ("a", "r"))


def test_a_broken_chain_admits_nothing_until_repaired() -> None:
    quotas = new_quotas()
    quotas.on_quota(build_quota("p", maximum={"x": 10}, parent="a"))
    refusal = quotas.check("a", Demand({"x": 1}))
    assert refusal is not None
    assert (refusal.reason, refusal.other) == (Reason.BROKEN_CHAIN, "a")
    view = quotas.view("a")
    assert view is not None
    assert (view.usable, [problem.kind for problem in view.problems]) == (False, ["Cycle"])
    assert (quotas.chain("a"), quotas.tree_id("a")) == ((), "")
    quotas.on_quota(build_quota("p", maximum={"x": 10}, is_parent=True))
    assert quotas.check("a", Demand({"x": 1})) is None
    assert not any(problem.fatal for problem in quotas.problems())


def test_charges_of_a_broken_quota_still_take_nodes() -> None:
    quotas = new_quotas(QuotaMode.RUNTIME)
    quotas.charge("u", "a", Demand({"x": 25}))
    quotas.on_foreign("pod", "a", {"x": 2}, stage=PodStage.BOUND)
    quotas.on_quota(build_quota("a", maximum={"x": 8}, parent="gone"))
    refusal = quotas.check("r", Demand({"x": 4}))
    assert refusal is not None
    assert (refusal.reason, refusal.used) == (Reason.NO_CAPACITY, 27)
    assert quotas.check("r", Demand({"x": 3})) is None
    quotas.validate()


def test_a_pod_of_an_unknown_quota_belongs_to_the_default_quota() -> None:
    quotas = QuotaCache(QuotaSettings())
    quotas.on_quota(build_quota("c", maximum={"cpu": 9}))
    quotas.on_capacity({"cpu": 5000})
    quotas.on_foreign("pod", "new", {"cpu": 2000}, stage=PodStage.BOUND)
    quotas.on_foreign("pod", "new", {"cpu": 2000}, stage=PodStage.BOUND)
    refusal = quotas.check("c", Demand({"cpu": 4000}))
    assert refusal is not None
    assert (refusal.reason, refusal.limit) == (Reason.NO_CAPACITY, 3000)
    quotas.on_quota(build_quota("new", maximum={"cpu": 9}))
    assert used(quotas, DEFAULT_QUOTA) == 0
    assert quotas.check("c", Demand({"cpu": 3000})) is None
    quotas.validate()


def test_views_show_the_amounts_of_a_quota() -> None:
    quotas = new_quotas(QuotaMode.RUNTIME)
    quotas.charge("u", "a", Demand({"x": 3, "unseen": 1}))
    quotas.on_foreign("pod", "a", {"x": 2})
    quotas.protect("a", Demand({"x": 1}))
    view = quotas.view("a")
    assert view is not None
    assert (view.charged, view.foreign, view.demand) == ({"x": 3, "unseen": 1}, {"x": 2}, {"x": 5})
    assert (view.runtime, view.limits, view.scaled_min) == ({"x": 5}, {"x": 8}, {"x": 4})
    assert (view.parent, view.children, view.lends) == ("p", (), True)
    parent = quotas.view("p")
    assert parent is not None
    assert (parent.children, parent.used, parent.request) == (("a",), {"x": 5}, {"x": 5})
    assert quotas.view("nobody") is None


def test_pods_and_namespaces_find_their_quota() -> None:
    quotas = new_quotas()
    quotas.on_quota(build_quota("b", annotations={QUOTA_NAMESPACES: '["ns1"]'}))
    names = quotas.stated.by_name
    assert names.quota_of_pod({QUOTA_NAME: "a"}, "ns1") == "a"
    assert names.quota_of_pod({}, "ns1") == "b"
    assert names.quota_of_pod({}, "elsewhere") == DEFAULT_QUOTA
    assert (names.quota_of_namespace("ns1"), names.quota_of_namespace("elsewhere")) == ("b", "")


def test_special_objects_give_their_max_and_get_no_name() -> None:
    quotas = QuotaCache(QuotaSettings(mode=QuotaMode.MAX))
    quotas.on_quota(build_quota(DEFAULT_QUOTA, maximum={"x": 5}))
    assert quotas.stated.names() == ()
    assert quotas.check(DEFAULT_QUOTA, Demand({"x": 5})) is None
    assert quotas.check(DEFAULT_QUOTA, Demand({"x": 6})) is not None


def test_trees_have_totals_of_their_own() -> None:
    quotas = QuotaCache(QuotaSettings(multi_quota_tree=True))
    labels = {QUOTA_TREE_ID: "t", QUOTA_IS_ROOT: "true"}
    total = {QUOTA_TOTAL_RESOURCE: '{"x":30}'}
    quotas.on_quota(
        build_quota("t-root", maximum={"x": 99}, is_parent=True, labels=labels, annotations=total)
    )
    quotas.on_quota(build_quota("t-a", maximum={"x": 99}, parent="t-root"))
    quotas.on_quota(build_quota("d", maximum={"x": 99}))
    quotas.on_capacity({"x": 100})
    assert (quotas.tree_id("t-a"), quotas.tree_id("d")) == ("t", "")
    assert quotas.check("t-a", Demand({"x": 30})) is None
    assert quotas.check("t-a", Demand({"x": 31})) is not None
    assert quotas.check("d", Demand({"x": 70})) is None
    assert quotas.check("d", Demand({"x": 71})) is not None


@pytest.mark.parametrize(
    ("change", "is_woken"),
    [
        pytest.param(lambda quotas: quotas.release("u"), True, id="a release"),
        pytest.param(lambda quotas: quotas.release("far"), False, id="a release elsewhere"),
        pytest.param(lambda quotas: quotas.charge("v", "r", Demand({"x": 1})), False, id="a start"),
        pytest.param(
            lambda quotas: quotas.charge("u", "a", Demand({"x": 6})), False, id="too little"
        ),
        pytest.param(lambda quotas: quotas.charge("u", "a", Demand({"x": 5})), True, id="a resize"),
        pytest.param(
            lambda quotas: quotas.on_quota(build_quota("a", maximum={"x": 10}, parent="p")),
            True,
            id="an edit",
        ),
        pytest.param(
            lambda quotas: quotas.on_quota(
                build_quota("a", minimum={"x": 4}, maximum={"x": 8}, parent="p")
            ),
            False,
            id="an edit that changes nothing",
        ),
        pytest.param(lambda quotas: quotas.stop_waiting("w"), False, id="it left"),
    ],
)
def test_waking(change: Callable[[QuotaCache], None], *, is_woken: bool) -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 7}))
    quotas.charge("far", "r", Demand({"x": 7}))
    demand = Demand({"x": 3})
    refusal = quotas.check("a", demand)
    assert refusal is not None
    quotas.wait("w", "a", demand, refusal)
    assert take_woken(quotas) == []
    change(quotas)
    assert take_woken(quotas) == (["w"] if is_woken else [])
    assert take_woken(quotas) == []


def test_waking_one_by_one_checks_the_room_again() -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 8}))
    demand = Demand({"x": 5})
    for waiter, rank in (("second", (2,)), ("first", (1,)), ("third", (3,))):
        refusal = quotas.check("a", demand)
        assert refusal is not None
        quotas.wait(waiter, "a", demand, refusal, rank)
    quotas.release("u")
    assert take_woken(quotas, 1) == ["first"]
    quotas.charge("first", "a", demand)
    assert take_woken(quotas, 1) == []
    quotas.release("first")
    assert take_woken(quotas) == ["second", "third"]


def test_a_fork_wakes_independently() -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 8}))
    demand = Demand({"x": 5})
    refusal = quotas.check("a", demand)
    assert refusal is not None
    quotas.wait("w", "a", demand, refusal)
    fork = quotas.fork()
    fork.release("u")
    assert take_woken(fork) == ["w"]
    assert take_woken(quotas) == []
    assert quotas.charge_of("u") is not None


def forked_quotas(mode: QuotaMode) -> QuotaCache:
    """Return a cache with a parent, a quota without weight, a foreign pod, owner and waiter."""
    quotas = QuotaCache(QuotaSettings(mode=mode))
    quotas.on_quota(build_quota("p", minimum={"x": 6}, maximum={"x": 8}, is_parent=True))
    quotas.on_quota(build_quota("a", minimum={"x": 6}, maximum={"x": 8}, parent="p"))
    quotas.on_quota(build_quota("z", maximum={"x": 8}, weight={"x": 0, "y": 1}, parent="p"))
    quotas.on_capacity({"x": 10})
    quotas.charge("u", "z", Demand({"x": 4}))
    quotas.charge("v", "z", Demand({"x": 1}))
    quotas.on_foreign("pod", "a", {"x": 1}, stage=PodStage.BOUND)
    quotas.protect("a", Demand({"x": 4}))
    demand = Demand({"x": 5})
    refusal = quotas.check("a", demand)
    assert refusal is not None
    quotas.wait("w", "a", demand, refusal)
    quotas.release("v")
    return quotas


MODES = pytest.mark.parametrize("mode", [QuotaMode.MAX, QuotaMode.RUNTIME])


@MODES
def test_the_first_query_of_a_fork_builds_no_tree(
    mode: QuotaMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    quotas = forked_quotas(mode)
    fork = quotas.fork()
    with monkeypatch.context() as patched:
        patched.delattr(quota_cache, "build_usage_trees")
        assert fork.check("a", Demand({"x": 5})) == quotas.check("a", Demand({"x": 5}))
        assert fork.view("z") == quotas.view("z")
        assert fork.stirred_domains() == quotas.stirred_domains()
        fork.release("u")
        assert take_woken(fork) == ["w"]
        assert take_woken(quotas) == []
    fork.validate()
    quotas.validate()


@MODES
def test_a_fork_shares_nothing_with_the_original(mode: QuotaMode) -> None:
    quotas = forked_quotas(mode)
    assert quotas.check("a", Demand({"x": 5})) is not None  # its memory is not copied
    fork = quotas.fork()
    ours, theirs = quotas.trees, fork.trees
    others = {id(node) for node in quotas_of(quotas)}
    assert others.isdisjoint(id(node) for node in quotas_of(fork))
    for tree in theirs.trees.values():
        nodes = [tree.root, tree.orphans, *tree.nodes.values()]
        found = [*tree.special.values(), *theirs.nodes.values()]
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
        assert walk.plain.has_weak(theirs.nodes["p"], "x")
    assert bool(theirs.walks) is (mode is QuotaMode.RUNTIME)


def is_complete(part: object) -> bool:
    return all(hasattr(part, field) for field in vars(type(part))["__slots__"])


def quotas_of(cache: QuotaCache) -> list[NodeUsage]:
    """Return all nodes that are reachable from a cache."""
    found: dict[int, object] = {}
    new: list[object] = [cache]
    while new:
        one = new.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType):
            found[id(one)] = one
            new += gc.get_referents(one)
    return [one for one in found.values() if isinstance(one, NodeUsage)]


def test_validate_names_the_wrong_sums() -> None:
    quotas = new_quotas()
    quotas.charge("u", "a", Demand({"x": 3}))
    quotas.trees.nodes["p"].used["x"] += 1
    with pytest.raises(AssertionError, match=r"'p': used is \{'x': 4\}, should be \{'x': 3\}"):
        quotas.validate()


def test_waiting_with_the_gate_for_used_amounts() -> None:
    quotas = QuotaCache(QuotaSettings(guarantee_usage=True, cap_by_total=False))
    for name in "ab":
        quotas.on_quota(build_quota(name, minimum={"x": 4}, maximum={"x": 10}))
    quotas.on_capacity({"x": 10})
    quotas.charge("one", "a", Demand({"x": 6}))
    for waiter in ("w", "twin"):
        refusal = quotas.check("b", Demand({"x": 5}))
        assert refusal is not None
        quotas.wait(waiter, "b", Demand({"x": 5}), refusal)
    quotas.charge("two", "a", Demand({"x": 1}))
    assert take_woken(quotas) == []
    quotas.release("one")
    assert take_woken(quotas) == ["w", "twin"]


def in_tree(tree: str, most: int, uid: str = "uid") -> ElasticQuota:
    """Return the quota of a unit, in this tree; its siblings there have the same labels."""
    return build_quota("mover", maximum={"x": most}, uid=uid, labels={QUOTA_TREE_ID: tree})


def test_a_tree_is_not_left_by_an_edit() -> None:
    quotas = QuotaCache(QuotaSettings(multi_quota_tree=True))
    for tree, total in (("t", 5), ("u", 50)):
        labels = {QUOTA_TREE_ID: tree, QUOTA_IS_ROOT: "true"}
        notes = {QUOTA_TOTAL_RESOURCE: f'{{"x":{total}}}'}
        root = build_quota(f"{tree}-root", maximum={"x": 99}, labels=labels, annotations=notes)
        quotas.on_quota(root)
    quotas.on_capacity({"x": 100})
    ten = Demand({"x": 10})
    quotas.on_quota(in_tree("t", 20))
    quotas.on_quota(in_tree("u", 40))
    # As koord-scheduler: it stays in its tree, with what it was there.
    assert (quotas.tree_id("mover"), quotas.check("mover", ten) is None) == ("t", False)
    view = quotas.view("mover")
    assert view is not None
    assert view.max == {"x": 20}
    assert [problem.kind for problem in view.problems] == ["TreeChanged"]
    quotas.on_quota(in_tree("t", 30))
    view = quotas.view("mover")
    assert view is not None
    assert (view.max, view.problems) == ({"x": 30}, ())
    # A quota that is made anew is in the tree that it names.
    quotas.on_quota(in_tree("u", 40, uid="another"))
    assert (quotas.tree_id("mover"), quotas.check("mover", ten)) == ("u", None)
    assert quotas.problems() == ()


def test_with_one_tree_ids_do_not_matter() -> None:
    quotas = QuotaCache(QuotaSettings())
    quotas.on_quota(in_tree("t", 20))
    quotas.on_quota(in_tree("u", 40))
    view = quotas.view("mover")
    assert view is not None
    assert (view.max, view.problems) == ({"x": 40}, ())
