"""Quotas and their parents as trees, and the problems of their chains.

A tree has a root that is no quota object: it stands for the total of the nodes (the default tree)
or for the total that a profile gives (other trees). What quotas inherit from it is stated by the
object that koord-scheduler makes under the root's name. Quotas hang below it by their label
`parent`. A quota whose chain is broken (a cycle, a missing parent, an unreadable amount) is in no
tree: it admits nothing and takes no part in the division until it is repaired.

If two objects have one name, the oldest counts: names are global (DECISIONS.md 17).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from queue_scheduler.quota.quota_decision import ProblemKind, QuotaProblem
from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota.webhook_rules import are_keys_consistent, do_mins_fit, do_tree_ids_agree
from shared_api.resource_list import Amounts, add
from shared_api.well_known_labels import (
    DEFAULT_QUOTA,
    QUOTA_IS_PARENT,
    QUOTA_SHARED_WEIGHT,
    RECLAIM_MIN_RUNTIME,
    ROOT_QUOTA,
    SPECIAL_QUOTAS,
    SYSTEM_QUOTA,
)

MAX_DEPTH: Final = 32
"""Levels of quotas below a root. koord-scheduler sets no limit; three or four are common."""

MAX_NAMED: Final = 8
"""Quotas of a cycle that its problem names. Each of them has it, so a thousand that named all would
have a million names together."""

_LAST_OF_NAME: Final = (
    "koord-scheduler takes the one that was changed last, and may refuse pods: rename one"
)


class QuotaNode:
    """One quota in its tree; immutable once the tree is built.

    `chain` is the quota itself, its parent, and so on, without the root. `governed_keys` are the
    resources that are divided among its children.
    """

    __slots__ = ("chain", "children", "governed_keys", "name", "parent", "spec", "tree_id")

    def __init__(self, spec: QuotaSpec, parent: QuotaNode | None, tree_id: str) -> None:
        self.spec = spec
        self.name = spec.name
        self.parent = parent
        self.tree_id = tree_id
        self.children: list[QuotaNode] = []
        self.governed_keys: tuple[str, ...] = tuple(sorted(spec.max))
        self.chain: tuple[QuotaNode, ...] = (
            () if parent is None else (self, *parent.chain) if parent.parent else (self,)
        )

    @property
    def is_special(self) -> bool:
        """Whether it is the default or system quota, which runtime does not limit."""
        return self.name in SPECIAL_QUOTAS


_ROOT: Final = QuotaSpec(name=ROOT_QUOTA, is_parent=True)
"""What roots state unless an object of that name states what quotas inherit."""


class QuotaTree:
    """A root and the quotas below it, by name; the default tree has the special quotas."""

    __slots__ = ("nodes", "root", "tree_id")

    def __init__(self, tree_id: str, root: QuotaSpec = _ROOT) -> None:
        self.tree_id = tree_id
        self.root = QuotaNode(root, None, tree_id)
        self.nodes: dict[str, QuotaNode] = {}

    @property
    def special_names(self) -> tuple[str, ...]:
        """The quotas whose usage is subtracted from the total, whether they take part or not."""
        return () if self.tree_id else (SYSTEM_QUOTA, DEFAULT_QUOTA)

    def top_down(self) -> list[QuotaNode]:
        """Return every quota after its parent, siblings by name; without the root."""
        ordered: list[QuotaNode] = []
        level: list[QuotaNode] = list(self.root.children)
        while level:
            ordered.extend(level)
            level = [child for node in level for child in node.children]
        return ordered


class QuotaForest:
    """All trees, the quotas outside any tree, and the problems of quotas.

    `broken` maps a quota that exists but cannot be used to the quota that causes it.
    """

    __slots__ = ("broken", "nodes", "problems", "trees")

    def __init__(self) -> None:
        self.trees: dict[str, QuotaTree] = {}
        self.nodes: dict[str, QuotaNode] = {}
        self.broken: dict[str, str] = {}
        self.problems: list[QuotaProblem] = []


def build_forest(
    specs: Iterable[QuotaSpec],
    *,
    multi_quota_tree: bool = False,
    are_elastic: bool = True,
    are_divided: bool = False,
    specials: Iterable[QuotaSpec] = (),
) -> QuotaForest:
    """Return the trees of these quotas.

    `specials` are the default and system quota if they take part in the division; objects in
    `specs` with their names are left out, and of one with the root's only the time that quotas
    inherit counts: koord-scheduler writes the rest of it. `are_elastic`: what Koordinator's webhook
    would have refused is reported as a problem. `are_divided`: what the division gives counts, so a
    quota without a weight is reported, too.
    """
    forest = QuotaForest()
    named = _oldest_of_each_name(specs, forest)
    root = _read_root(named.get(ROOT_QUOTA), forest)
    counted = {name: spec for name, spec in named.items() if name not in SPECIAL_QUOTAS}
    for spec in counted.values():
        forest.problems.extend(spec.problems)
    faults = _find_faults(counted, forest, multi_quota_tree=multi_quota_tree)
    forest.trees[""] = QuotaTree("", root)
    for name in _parents_first(counted, faults):
        _plant(counted[name], forest, root, multi_quota_tree=multi_quota_tree)
    for spec in specials:
        _plant(spec, forest, root, multi_quota_tree=False)
    forest.broken = faults
    for tree in forest.trees.values():
        _finish(tree)
    if are_elastic:
        for node in forest.nodes.values():
            _warn(node, forest)
            if are_divided:
                _warn_of_weight(node, forest)
    forest.problems.sort(key=lambda problem: (problem.quota, problem.namespace, problem.kind))
    return forest


def tree_totals(forest: QuotaForest, nodes_total: Mapping[str, int]) -> dict[str, Amounts]:
    """Return the total of each tree: the default tree has what the others leave.

    A tree whose root says that it ignores the default tree takes nothing from it.
    """
    totals: dict[str, Amounts] = {}
    taken: Amounts = {}
    for tree_id, tree in forest.trees.items():
        roots = [
            (node.spec, node.spec.total)
            for node in tree.root.children
            if tree_id and node.spec.is_tree_root and node.spec.total is not None
        ]
        totals[tree_id] = {}
        for spec, total in roots:
            totals[tree_id] = add(totals[tree_id], total)
            taken = taken if spec.ignores_default_tree else add(taken, total)
    totals[""] = {key: amount - taken.get(key, 0) for key, amount in nodes_total.items()}
    return totals


def _oldest_of_each_name(specs: Iterable[QuotaSpec], forest: QuotaForest) -> dict[str, QuotaSpec]:
    counted: dict[str, QuotaSpec] = {}
    for spec in sorted(specs, key=lambda spec: (*spec.age, spec.uid)):
        first = counted.setdefault(spec.name, spec)
        if first is not spec:
            text = (
                f"quota names are global, and the older {first.namespace}/{first.name} counts; "
                f"{_LAST_OF_NAME}"
            )
            _report(forest, spec, ProblemKind.DUPLICATE_NAME, text)
            text = f"{spec.namespace}/{spec.name} has its name, and does not count; {_LAST_OF_NAME}"
            _report(forest, first, ProblemKind.DUPLICATE_NAME, text, fatal=False)
    return counted


def _read_root(stated: QuotaSpec | None, forest: QuotaForest) -> QuotaSpec:
    """Return what every root states, by the object that koord-scheduler makes for it."""
    if stated is None:
        return _ROOT
    kind = ProblemKind.UNREADABLE_ANNOTATION
    forest.problems.extend(each for each in stated.problems if each.kind is kind)
    return replace(_ROOT, min_run_seconds=stated.min_run_seconds)


def _find_faults(
    specs: Mapping[str, QuotaSpec], forest: QuotaForest, *, multi_quota_tree: bool
) -> dict[str, str]:
    """Return the quotas that cannot be used, each with the quota that causes it."""
    faults = _find_strays(specs, forest) if multi_quota_tree else {}
    sound: set[str] = set()
    for name in sorted(specs):
        path: list[str] = []
        at = name
        while at not in sound and at not in faults and at not in path and at != ROOT_QUOTA:
            if at not in specs:
                break
            path.append(at)
            at = specs[at].parent
        _judge_path(path, at, specs, faults, sound, forest)
    return faults


def _find_strays(specs: Mapping[str, QuotaSpec], forest: QuotaForest) -> dict[str, str]:
    """Return the quotas that name another tree than their parent.

    koord-scheduler looks for the parent in the tree that a quota names. One that names none is
    taken to be in its parent's: Koordinator's webhook fills that in.
    """
    strays: dict[str, str] = {}
    for name, spec in specs.items():
        parent = specs.get(spec.parent)
        if parent is None or spec.tree_id in {"", parent.tree_id}:
            continue
        strays[name] = name
        text = f"it names the tree {spec.tree_id}, in which its parent {parent.name} is not"
        _report(forest, spec, ProblemKind.TREE_ID_DIFFERS, text)
    return strays


def _judge_path(
    path: list[str],
    end: str,
    specs: Mapping[str, QuotaSpec],
    faults: dict[str, str],
    sound: set[str],
    forest: QuotaForest,
) -> None:
    """Judge a path of quotas, child to parent, that ends at `end`."""
    fault = faults.get(end, "")
    if end in path:
        cycle = path[path.index(end) :]
        text = f"its parents form a cycle: {_describe_cycle(cycle)}"
        for name in cycle:
            faults[name] = name
            _report(forest, specs[name], ProblemKind.CYCLE, text)
        path, fault = path[: path.index(end)], end
    elif path and end != ROOT_QUOTA and end not in sound and not fault:
        fault = path[-1]
        _report(
            forest, specs[fault], ProblemKind.PARENT_MISSING, f"its parent {end!r} does not exist"
        )
    depth = 0 if end == ROOT_QUOTA or fault else _depth(end, specs)
    for name in reversed(path):
        depth += 1
        if not fault and not specs[name].is_usable:
            fault = name
        elif not fault and depth > MAX_DEPTH:
            fault = name
            _report(
                forest, specs[name], ProblemKind.TOO_DEEP, f"more than {MAX_DEPTH} levels of quotas"
            )
        if fault:
            faults[name] = fault
        else:
            sound.add(name)


def _describe_cycle(names: list[str]) -> str:
    """Return the quotas of a cycle, child to parent, as text; of a long one the first and last."""
    shown = names
    if len(names) > MAX_NAMED:
        shown = [*names[: MAX_NAMED - 1], f"{len(names) - MAX_NAMED} more", names[-1]]
    return " -> ".join([*shown, names[0]])


def _depth(name: str, specs: Mapping[str, QuotaSpec]) -> int:
    depth = 0
    while name != ROOT_QUOTA:
        depth += 1
        name = specs[name].parent
    return depth


def _report(
    forest: QuotaForest, spec: QuotaSpec, kind: ProblemKind, text: str, *, fatal: bool = True
) -> None:
    forest.problems.append(QuotaProblem(kind, spec.namespace, spec.name, text, fatal))


def _parents_first(specs: Mapping[str, QuotaSpec], faults: Mapping[str, str]) -> list[str]:
    children: dict[str, list[str]] = {}
    for name in sorted(specs):
        if name not in faults:
            children.setdefault(specs[name].parent, []).append(name)
    ordered: list[str] = []
    level = children.get(ROOT_QUOTA, [])
    while level:
        ordered.extend(level)
        level = [child for name in level for child in children.get(name, [])]
    return ordered


def _plant(
    spec: QuotaSpec, forest: QuotaForest, root: QuotaSpec, *, multi_quota_tree: bool
) -> None:
    parent = forest.nodes.get(spec.parent)
    if parent is None:
        tree_id = spec.tree_id if multi_quota_tree else ""
        tree = forest.trees.setdefault(tree_id, QuotaTree(tree_id, root))
        parent = tree.root
    node = QuotaNode(spec, parent, parent.tree_id)
    parent.children.append(node)
    forest.nodes[spec.name] = node
    forest.trees[parent.tree_id].nodes[spec.name] = node


def _finish(tree: QuotaTree) -> None:
    """Sort siblings by name (breaks ties in the division); the root governs all governed keys."""
    governed: set[str] = set()
    for node in tree.nodes.values():
        node.children.sort(key=lambda child: child.name)
        if not node.is_special:
            governed.update(node.spec.max)
    tree.root.children.sort(key=lambda child: child.name)
    tree.root.governed_keys = tuple(sorted(governed))


def _warn(node: QuotaNode, forest: QuotaForest) -> None:
    """Warn about what the webhook would have refused, though the division handles it."""
    spec = node.spec
    mins = [child.spec.min for child in node.children]
    if not do_mins_fit(spec.min, None, (), mins):
        text = "the min of its children adds up to more than its own: each is scaled down"
        _report(forest, spec, ProblemKind.CHILDREN_MIN_OVER_MIN, text, fatal=False)
    if spec.min_run_seconds is not None and not (node.children or spec.is_parent):
        text = (
            f"annotation {RECLAIM_MIN_RUNTIME} has no effect on a quota with none below it: set it "
            "on the quota above, or on the root"
        )
        _report(forest, spec, ProblemKind.ATTRIBUTE_WITHOUT_EFFECT, text, fatal=False)
    if node.children and not spec.is_parent:
        text = f'it has children, but no label {QUOTA_IS_PARENT}: "true"'
        _report(forest, spec, ProblemKind.NOT_MARKED_AS_PARENT, text, fatal=False)
    if node.parent is None or node.parent.parent is None:
        return
    parent = node.parent.spec
    own, its = {"min": spec.min, "max": spec.max}, {"min": parent.min, "max": parent.max}
    if not are_keys_consistent(own, its, None, relaxed=False):
        text = f"the resources of min and max differ from those of its parent {parent.name}"
        _report(forest, spec, ProblemKind.RESOURCES_DIFFER, text, fatal=False)
    if not do_tree_ids_agree(spec.tree_id, parent.tree_id, None):
        text = f"its tree id is not that of its parent {parent.name}, which counts"
        _report(forest, spec, ProblemKind.TREE_ID_DIFFERS, text, fatal=False)


def _warn_of_weight(node: QuotaNode, forest: QuotaForest) -> None:
    """Warn where a quota gets its min and no share of the rest, though its max is more.

    Often the annotation just does not name the resource.
    """
    spec, parent = node.spec, node.parent
    if node.is_special or parent is None:
        return
    keys = [
        key
        for key, most in sorted(spec.max.items())
        if most > spec.min.get(key, 0) and not spec.weight.get(key, 0)
    ]
    if not keys:
        return
    text = f"its {QUOTA_SHARED_WEIGHT} of {', '.join(keys)} is 0: of that it gets its min alone"
    others = [each.spec.min for each in parent.children if each is not node]
    is_lent = parent.parent is not None and parent.spec.lends
    if is_lent and any(spec.min.get(key) and each.get(key) for key in keys for each in others):
        text += (
            f", scaled down to what the quotas of {parent.name} ask for: while the others ask for "
            "nothing, its pods may be refused"
        )
    _report(forest, spec, ProblemKind.NO_WEIGHT, text, fatal=False)
