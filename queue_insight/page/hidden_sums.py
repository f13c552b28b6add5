"""The amounts of quotas that a visitor may see.

What a quota uses is a sum over units. Where units of one or two namespaces that the visitor may not
read are in it, the sum would tell about these (`debug_api.hiding.may_sum`), so it is left out. And
since a parent's sum minus those of its other children is the sum of the child that is left out, a
parent's is left out with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from queue_insight.page.known_state import Users
from queue_insight.page.visitors import Visitor
from queue_insight.record.engine_samples import FOREIGN
from queue_scheduler.debug_api.hiding import may_sum
from queue_scheduler.debug_api.views import QuotaNodeView

SUMS: Final = (
    "used",
    "charged",
    "foreign",
    "demand",
    "request",
    "protected",
    "runtime",
    "limits",
)
"""Fields that depend on units: the last two, since the division depends on what all request."""


class QuotaNode(QuotaNodeView):
    """One quota of the tree; `sums_hidden`: the amounts that depend on units are left out.

    They would tell about units of one or two namespaces that the visitor may not read.
    """

    children: list[QuotaNode]  # type: ignore[assignment]  # narrower, and nothing changes it
    sums_hidden: bool = False


def show_trees(
    trees: Iterable[QuotaNodeView], users: Mapping[str, Users], visitor: Visitor
) -> list[QuotaNode]:
    """Return quota trees as a visitor may see them.

    Args:
        trees: The trees, with all amounts.
        users: The namespaces whose units are in its amounts, by quota.
        visitor: Who is shown them.
    """
    return [_show(tree, users, visitor) for tree in trees]


def _show(tree: QuotaNodeView, users: Mapping[str, Users], visitor: Visitor) -> QuotaNode:
    children = [_show(child, users, visitor) for child in tree.children]
    is_hidden = not visitor.reads_all and (
        any(child.sums_hidden for child in children) or not _may_sum(tree, users, visitor)
    )
    fields: dict[str, Any] = {**dict(tree), "children": children, "sums_hidden": is_hidden}
    if is_hidden:
        fields |= {key: {} for key in SUMS}
    return QuotaNode(**fields)


def _may_sum(node: QuotaNodeView, users: Mapping[str, Users], visitor: Visitor) -> bool:
    """Return whether neither what is charged nor what waits tells about one or two namespaces."""
    of_quota = users.get(node.name, Users())
    charged = of_quota.charged | {FOREIGN} if node.foreign else of_quota.charged
    return all(
        may_sum(each for each in spaces if not visitor.may_read(each))
        for spaces in (charged, of_quota.pending)
    )
