"""An ElasticQuotaTree object as quotas: one spec per node, identified by its path from the root.

Objects are user input and parsed defensively, as ElasticQuotas are (`quota_spec`): what cannot be
used becomes a `QuotaProblem`, and the content of an object never raises here. A node whose name is
empty or has a slash has no path of its own: it is left out, with its whole subtree.

Min and max also have pseudo resources: the number of jobs (`MAX_JOBS`) and at the root, from a
label of the tree, the number of preemptible jobs (`MAX_PREEMPTIBLE_JOBS`). Deprecated names are
replaced as they are in demands, so either spelling governs both (`resource_names`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from queue_scheduler.quota.quota_decision import ProblemKind, QuotaProblem
from queue_scheduler.quota.quota_spec import QuotaSpec, min_against_max, without_effect
from queue_scheduler.quota.webhook_rules import do_mins_fit
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree, ElasticQuotaTreeNode
from shared_api.objects.pod import QuantityText
from shared_api.quantity import QuantityError
from shared_api.resource_list import Amounts, parse_amounts
from shared_api.resource_names import rename_deprecated
from shared_api.text_decoding import TextError, decode_json
from shared_api.well_known_labels import (
    LEND_LIMIT,
    MAX_JOBS,
    MAX_PREEMPTIBLE_JOBS,
    PREEMPT_LOWER_PRIORITY,
    ROOT_QUOTA,
    TREE_PREEMPT_POLICY,
    TREE_ROOT,
    read_annotation,
    read_int32,
    spellings,
)

SEPARATOR: Final = "/"


def parse_tree(tree: ElasticQuotaTree) -> list[QuotaSpec]:
    """Return the quotas of a tree, parents first, siblings in the order of the object."""
    reader = _Reader(tree)
    return list(reader.specs())


class _Reader:
    """Parses one object."""

    def __init__(self, tree: ElasticQuotaTree) -> None:
        self._tree = tree
        self._owners: dict[str, str] = {}

    def specs(self) -> Iterator[QuotaSpec]:
        level = [(TREE_ROOT, ROOT_QUOTA, self._tree.spec.root)]
        while level:
            below: list[tuple[str, str, ElasticQuotaTreeNode]] = []
            for path, parent, node in level:
                problems: list[QuotaProblem] = []
                below += self._children(path, node, problems)
                yield self._spec(path, parent, node, problems)
            level = below

    def _children(
        self, path: str, node: ElasticQuotaTreeNode, problems: list[QuotaProblem]
    ) -> Iterator[tuple[str, str, ElasticQuotaTreeNode]]:
        seen: set[str] = set()
        for child in node.children:
            text = ""
            if not child.name:
                text = "a child without a name is left out"
            elif SEPARATOR in child.name:
                text = f"the child {child.name!r} is left out: its name has a slash"
            elif child.name in seen:
                text = f"of two children called {child.name!r} the first counts"
            if text:
                problems.append(self._problem(ProblemKind.BAD_NAME, path, text))
                continue
            seen.add(child.name)
            yield f"{path}{SEPARATOR}{child.name}", path, child

    def _spec(
        self, path: str, parent: str, node: ElasticQuotaTreeNode, problems: list[QuotaProblem]
    ) -> QuotaSpec:
        meta = self._tree.metadata
        maximum = self._amounts("max", path, node.max, problems)
        minimum = self._amounts("min", path, node.min, problems)
        for kind, text in min_against_max(minimum, maximum):
            if kind is ProblemKind.MIN_OVER_MAX:
                problems.append(self._problem(kind, path, text))
        idle = ProblemKind.RESOURCE_WITHOUT_EFFECT
        problems += [self._problem(idle, path, text) for text in without_effect(maximum)]
        mins = [self._amounts("min", path, child.min, []) for child in node.children]
        if node.min and not do_mins_fit(minimum, None, (), mins):
            text = "the min of its children adds up to more than its own"
            problems.append(self._problem(ProblemKind.CHILDREN_MIN_OVER_MIN, path, text))
        if node.attributes.get(TREE_PREEMPT_POLICY) == PREEMPT_LOWER_PRIORITY:
            text = f"attribute {TREE_PREEMPT_POLICY} has no effect; min counts all that is charged"
            problems.append(self._problem(ProblemKind.ATTRIBUTE_WITHOUT_EFFECT, path, text))
        if path == TREE_ROOT:
            maximum.update(self._preemptible_jobs(problems))
        return QuotaSpec(
            name=path,
            namespace=meta.namespace,
            uid=meta.uid,
            created=meta.creation_timestamp,
            parent=parent,
            is_parent=bool(node.children),
            min=minimum,
            max=maximum,
            kept=self._kept(path, node, minimum, problems),
            namespaces=self._namespaces(path, node, problems),
            problems=tuple(problems),
        )

    def _amounts(
        self,
        where: str,
        path: str,
        quantities: Mapping[str, QuantityText],
        problems: list[QuotaProblem],
    ) -> Amounts:
        try:
            amounts = rename_deprecated(parse_amounts(quantities))
        except QuantityError as error:
            problems.append(
                self._problem(ProblemKind.UNREADABLE_AMOUNT, path, f"{where}: {error}", fatal=True)
            )
            return {}
        today, legacy = spellings(MAX_JOBS)
        if legacy in amounts:
            amounts.setdefault(today, amounts.pop(legacy))
        for resource, amount in amounts.items():
            if amount < 0:
                text = f"{where}: {resource} is negative"
                problems.append(self._problem(ProblemKind.NEGATIVE_AMOUNT, path, text, fatal=True))
        return amounts

    def _kept(
        self,
        path: str,
        node: ElasticQuotaTreeNode,
        minimum: Amounts,
        problems: list[QuotaProblem],
    ) -> Amounts:
        """Return the part of min that is not lent; a resource without a lend limit is all lent."""
        text = node.attributes.get(LEND_LIMIT)
        if not text:
            return {}
        try:
            found = decode_json(text, dict[str, QuantityText])
            lent = rename_deprecated(parse_amounts(found))
        except (TextError, QuantityError) as error:
            text = f"attribute {LEND_LIMIT}: {error}; it is ignored"
            problems.append(self._problem(ProblemKind.UNREADABLE_ATTRIBUTE, path, text))
            return {}
        kept = {
            resource: minimum[resource] - max(0, amount)
            for resource, amount in lent.items()
            if resource in minimum
        }
        return {resource: amount for resource, amount in kept.items() if amount > 0}

    def _namespaces(
        self, path: str, node: ElasticQuotaTreeNode, problems: list[QuotaProblem]
    ) -> tuple[str, ...]:
        for namespace in node.namespaces:
            first = self._owners.setdefault(namespace, path)
            if first != path:
                text = f"namespace {namespace} is listed at {first}, which counts"
                problems.append(self._problem(ProblemKind.NAMESPACE_TWICE, path, text))
        return tuple(each for each in node.namespaces if self._owners[each] == path)

    def _preemptible_jobs(self, problems: list[QuotaProblem]) -> Amounts:
        text = read_annotation(self._tree.metadata.labels, MAX_PREEMPTIBLE_JOBS)
        if text is None:
            return {}
        most = read_int32(text, None)
        if most is None or most < 0:
            words = f"label {MAX_PREEMPTIBLE_JOBS}: {text!r} is no number of jobs; it is ignored"
            problems.append(self._problem(ProblemKind.UNREADABLE_LABEL, TREE_ROOT, words))
            return {}
        return {MAX_PREEMPTIBLE_JOBS: most}

    def _problem(
        self, kind: ProblemKind, path: str, text: str, *, fatal: bool = False
    ) -> QuotaProblem:
        return QuotaProblem(kind, self._tree.metadata.namespace, path, text, fatal)
