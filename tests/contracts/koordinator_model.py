"""What koord-scheduler does with quotas and pods, as far as only the vectors need it.

The division itself is production code (`queue_scheduler.quota.runtime_division`). Here are the
scheduler's accounting around it, its verdict on a pod, and rules of its webhook and controllers
that a job queue never applies.

Source: koordinator, pkg/scheduler/plugins/elasticquota.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from queue_scheduler.quota.quota_settings import Rounding, default_special_max
from queue_scheduler.quota.quota_spec import QuotaSpec, effective_weight
from queue_scheduler.quota.quota_tree import QuotaForest, QuotaTree, build_forest
from queue_scheduler.quota.runtime_division import (
    Division,
    DivisionRules,
    DivisionState,
    compute_division,
)
from shared_api.resource_list import Amounts, add, parse_amounts, subtract
from shared_api.well_known_labels import DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA
from tests.contracts.terminating_pods import TerminatingPods, does_terminating_pod_count

Json = dict[str, Any]
SPECIALS = (SYSTEM_QUOTA, DEFAULT_QUOTA)


@dataclass
class Verdict:
    """allow, or why not ('limit', 'min', 'parent:<quota>') and on which resources."""

    why: str = ""
    exceed: list[str] = field(default_factory=list)

    def as_json(self) -> Json:
        """The form of the vectors."""
        return {"allow": not self.why, "why": self.why, "exceed": sorted(self.exceed)}


@dataclass
class CountedPod:
    """A pod as it was counted; later edits of its quota do not change this."""

    quota: str
    amounts: Amounts
    is_assigned: bool
    is_non_preemptible: bool


def clamped(amounts: Mapping[str, int]) -> Amounts:
    """Return the amounts, with negative ones as zero."""
    return {key: max(0, amount) for key, amount in amounts.items()}


def masked(amounts: Mapping[str, int], keys: Iterable[str]) -> Amounts:
    """Return only these keys."""
    wanted = set(keys)
    return {key: amount for key, amount in amounts.items() if key in wanted}


def over(amounts: Mapping[str, int], limit: Mapping[str, int]) -> list[str]:
    """Return the keys present in both on which the limit is exceeded."""
    return sorted(key for key, amount in amounts.items() if key in limit and amount > limit[key])


def spec_of(quota: Json) -> QuotaSpec:
    """Return the spec of a quota as the vectors write it."""
    maximum = parse_amounts(quota.get("max") or {})
    weight = quota.get("weight")
    return QuotaSpec(
        name=quota["name"],
        parent=quota.get("parent") or ROOT_QUOTA,
        is_parent=quota.get("is_parent", False),
        lends=quota.get("allow_lent", True),
        min=parse_amounts(quota.get("min") or {}),
        max=maximum,
        weight=effective_weight(None if weight is None else parse_amounts(weight), maximum),
    )


class SchedulerModel:
    """One quota tree of one koord-scheduler, fed with the steps of a vector."""

    def __init__(self, config: Json, rounding: Rounding, special_max: Json | None = None) -> None:
        self.config = config
        self.rules = DivisionRules(
            rounding,
            scale_min=config.get("scale_min", True),
            guarantee=config.get("guarantee", False),
        )
        self.has_specials = not config.get("tree_id")
        self.divides_specials = self.has_specials and config.get("special_weight") == "max"
        self.special_max = default_special_max() if special_max is None else special_max
        self.total: Amounts = {}
        self.specs: dict[str, QuotaSpec] = {}
        self.pods: dict[str, CountedPod] = {}
        self.once_counted: set[str] = set()
        self.sums: dict[str, dict[str, Amounts]] = {
            name: {} for name in ("request", "used", "np_request", "np_used")
        }

    # --- steps ----------------------------------------------------------------------------------

    def step(self, step: Json) -> None:
        """Apply one step that changes something."""
        match step:
            case {"total": delta}:
                self.total = add(self.total, parse_amounts(delta))
            case {"quota": quota}:
                self.specs[quota["name"]] = spec_of(quota)
            case {"delete": name}:
                del self.specs[name]
                for sums in self.sums.values():
                    sums.pop(name, None)
            case {"request": name, "by": by} | {"used": name, "by": by}:
                kind = "request" if "request" in step else "used"
                self.change(kind, name, parse_amounts(by))
                self.change(f"np_{kind}", name, parse_amounts(step.get("np") or {}))
            case {"pod": pod}:
                self.put_pod(pod)
            case {"pod_delete": name}:
                self.remove_pod(name)
            case {"reserve": name}:
                self.assign_pod(name)
            case _:
                raise ValueError(f"unknown step {step}")

    def change(self, kind: str, quota: str, delta: Mapping[str, int]) -> None:
        """Add to one of a quota's own sums."""
        sums = self.sums[kind]
        sums[quota] = clamped(add(sums.get(quota, {}), delta))

    def put_pod(self, pod: Json) -> None:
        """Count a pod as it is now."""
        self.remove_pod(pod["name"])
        if "deleted_s_ago" in pod and not does_terminating_pod_count(
            TerminatingPods(self.config.get("terminating", "count")),
            seconds_since_deletion=pod["deleted_s_ago"],
            grace_seconds=pod.get("grace", 30),
        ):
            return
        quota = pod["quota"]
        if quota == ROOT_QUOTA:
            return  # such pods are neither counted nor limited
        if quota not in self.specs and quota not in SPECIALS:
            quota = DEFAULT_QUOTA
        if quota in self.specs:
            keys: Iterable[str] = self.specs[quota].max
        else:
            keys = self.special_max
        counted = CountedPod(
            quota,
            masked(parse_amounts(pod["req"]), keys),
            bool(pod.get("node")),
            bool(pod.get("np")),
        )
        self.pods[pod["name"]] = counted
        self.once_counted.add(quota)
        self._count(counted, 1)

    def remove_pod(self, name: str) -> None:
        """Remove a pod from the counts, if it is counted."""
        pod = self.pods.pop(name, None)
        if pod is not None:
            self._count(pod, -1)

    def assign_pod(self, name: str) -> None:
        """Count a pending pod as used: it is reserved."""
        pod = self.pods.get(name)
        if pod is None:
            return
        self._count(pod, -1)
        pod.is_assigned = True
        self._count(pod, 1)

    def _count(self, pod: CountedPod, sign: int) -> None:
        delta = {key: sign * amount for key, amount in pod.amounts.items()}
        kinds = ["request", *(["used"] if pod.is_assigned else [])]
        for kind in kinds:
            self.change(kind, pod.quota, delta)
            if pod.is_non_preemptible:
                self.change(f"np_{kind}", pod.quota, delta)

    # --- numbers --------------------------------------------------------------------------------

    def forest(self) -> QuotaForest:
        """Return the trees as they are now."""
        specials = [
            QuotaSpec(name=name, weight=effective_weight(None, dict(self.special_max)))
            for name in SPECIALS
        ]
        return build_forest(self.specs.values(), specials=specials if self.divides_specials else ())

    def root_runtime(self) -> Amounts:
        """Return what is divided: the total minus the usage of the default and system quotas."""
        left = dict(self.total)
        for name in SPECIALS if self.has_specials else ():
            left = subtract(left, self.sums["used"].get(name, {}))
        return left

    def divide(self, state: DivisionState | None = None) -> Division:
        """Return the current division."""
        return compute_division(
            self.forest().trees[""],
            self.sums["request"],
            self.root_runtime(),
            self.rules,
            own_used=self.sums["used"],
            state=state,
        )

    def subtree_sum(self, kind: str, name: str, tree: QuotaTree) -> Amounts:
        """Return one of the sums over a quota and everything below it."""
        if name == ROOT_QUOTA:
            names = {*self.specs, *SPECIALS}
        elif name in SPECIALS:
            names = {name}
        else:
            names = {node.name for node in tree.nodes.values() if tree.nodes[name] in node.chain}
        total: Amounts = {}
        for each in sorted(names):
            total = add(total, self.sums[kind].get(each, {}))
        return total

    def fields(self, division: Division) -> dict[str, dict[str, Amounts]]:
        """Return every field that a vector may expect, by quota."""
        tree = self.forest().trees[""]
        result: dict[str, dict[str, Amounts]] = {}
        for name in (ROOT_QUOTA, *SPECIALS, *self.specs):
            own = {
                "self_request": self.sums["request"].get(name, {}),
                "self_used": self.sums["used"].get(name, {}),
                "used": self.subtree_sum("used", name, tree),
                "np_request": self.subtree_sum("np_request", name, tree),
                "np_used": self.subtree_sum("np_used", name, tree),
                "runtime": division.runtime.get(name, {}),
                "autoscale_min": division.scaled_min.get(name, {}),
                "allocated": division.allocated.get(name, {}),
                "guaranteed": division.guaranteed.get(name, {}),
                "child_request": division.child_request.get(name, {}),
                "request": division.request.get(name, {}),
                "limited_request": division.limited.get(name, {}),
            }
            if name in SPECIALS:
                own["request"] = own["child_request"] = own["self_request"]
            result[name] = own
        result[ROOT_QUOTA]["runtime"] = self.root_runtime()
        result[ROOT_QUOTA]["request"] = self._root_request(division)
        return result

    def _root_request(self, division: Division) -> Amounts:
        total: Amounts = {}
        for node in self.forest().trees[""].root.children:
            if node.name not in SPECIALS:
                total = add(total, division.limited[node.name])
        for name in SPECIALS:
            total = add(total, self.sums["request"].get(name, {}))
        return total

    # --- the verdict on a pod -------------------------------------------------------------------

    def prefilter(
        self,
        quota: str,
        request: Mapping[str, int],
        division: Division,
        *,
        is_non_preemptible: bool = False,
        checks_parents: bool = False,
        uses_runtime: bool = True,
    ) -> Verdict:
        """Return the verdict of PreFilter on a pod with this request."""
        if quota == ROOT_QUOTA:
            return Verdict()
        if quota not in self.specs and quota not in SPECIALS:
            quota = DEFAULT_QUOTA
        tree = self.forest().trees[""]
        is_special = quota in SPECIALS
        maximum = dict(self.special_max) if is_special else self.specs[quota].max
        asked = masked(request, maximum)
        limit: Mapping[str, int] = maximum
        if uses_runtime:
            limit = {} if is_special else masked(division.runtime.get(quota, {}), maximum)
        exceed = over(add(self.subtree_sum("used", quota, tree), asked), limit)
        if exceed:
            return Verdict("limit", exceed)
        if is_non_preemptible and not is_special:
            np_used = self.subtree_sum("np_used", quota, tree)
            exceed = over(add(np_used, asked), self.specs[quota].min)
            if exceed:
                return Verdict("min", exceed)
        if checks_parents and not is_special:
            for node in tree.nodes[quota].chain[1:]:
                limit = division.runtime[node.name] if uses_runtime else node.spec.max
                used = self.subtree_sum("used", node.name, tree)
                exceed = over(masked(add(used, asked), asked), limit)
                if exceed:
                    return Verdict(f"parent:{node.name}", exceed)
        return Verdict()


def fnv1a64(text: str) -> str:
    """Return the decimal FNV-1a 64 hash that names the tree of a profile."""
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return str(value)
