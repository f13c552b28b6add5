"""One quota as users see it, at one moment."""

from __future__ import annotations

import msgspec

from queue_scheduler.quota.quota_decision import QuotaProblem
from shared_api.resource_list import Amounts


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """One quota with its numbers. Amounts are in base units, by resource.

    A plugin that shows quotas of its own sets what it knows; only the name is needed.

    Attributes:
        name: Its name, which units refer to.
        namespace: The namespace of its object.
        tree_id: Its tree; "": the default one.
        parent: Name of its parent; "": none.
        children: Names of its children.
        is_parent: Whether units may not be charged to it directly.
        lends: Whether others may use what it does not.
        usable: Whether it is in a tree; if not, only its charges are known.
        min: What it is guaranteed.
        scaled_min: The same, where all guarantees together are more than there is.
        max: What it may use.
        weight: Its share of what no quota is guaranteed.
        charged: The sum of the units charged to it.
        foreign: What pods ask for that are charged to it and belong to no unit.
        demand: What of both is counted, by the resources of `max`.
        used: The same over its subtree.
        request: Demand that the division of shares starts from, with that of held pods.
        runtime: Its share as koord-scheduler would compute it; empty in other modes.
        limits: What `used` is compared with; a missing resource is unlimited.
        protected: What is kept for its pending units.
        problems: What is wrong with it.
    """

    name: str
    namespace: str = ""
    tree_id: str = ""
    parent: str = ""
    children: tuple[str, ...] = ()
    is_parent: bool = False
    lends: bool = False
    usable: bool = True
    min: Amounts = {}
    scaled_min: Amounts = {}
    max: Amounts = {}
    weight: Amounts = {}
    charged: Amounts = {}
    foreign: Amounts = {}
    demand: Amounts = {}
    used: Amounts = {}
    request: Amounts = {}
    runtime: Amounts = {}
    limits: Amounts = {}
    protected: Amounts = {}
    problems: tuple[QuotaProblem, ...] = ()
