"""Rules of Koordinator's webhooks and quota controllers, restated only for the vectors.

A job queue applies none of them; what production applies is imported from there.
Source: koordinator, pkg/webhook/elasticquota, pkg/quota-controller/profile, and of
pkg/scheduler/plugins/elasticquota preempt.go and quota_overuse_revoke.go.
"""

from __future__ import annotations

from fractions import Fraction

from queue_scheduler.quota.quota_spec import min_against_max
from queue_scheduler.quota.webhook_rules import do_mins_fit, do_tree_ids_agree
from shared_api.quota_names import NamedQuota, build_quota_names
from shared_api.resource_list import Amounts, add, fits, maximum, parse_amounts, subtract
from shared_api.well_known_labels import DEFAULT_QUOTA, QUOTA_NAME, ROOT_QUOTA, SPECIAL_QUOTAS
from tests.contracts.koordinator_model import Json, fnv1a64, masked, over


def quota_of_pod(pod: Json, quotas: list[Json]) -> str:
    """Return the quota of a pod by production's rule."""
    names = build_quota_names(
        NamedQuota(
            created="",
            namespace=quota.get("namespace", ""),
            name=quota["name"],
            listed=tuple(quota.get("namespaces", ())),
        )
        for quota in quotas
    )
    labels = {QUOTA_NAME: pod["label"]} if pod.get("label") else {}
    return names.quota_of_pod(labels, pod["namespace"])


def fill_quota(quota: Json, known: list[Json]) -> Json:
    """Return the quota as the defaulting webhook stores it."""
    filled = dict(quota)
    filled["parent"] = quota.get("parent") or ROOT_QUOTA
    if filled["parent"] != ROOT_QUOTA:
        parent = next((other for other in known if other["name"] == filled["parent"]), None)
        if parent is None:
            raise LookupError(f"parent {filled['parent']} does not exist")
        filled["tree"] = parent.get("tree", "")
    weight = quota.get("weight") or {}
    filled["weight"] = {key: weight.get(key, amount) for key, amount in quota["max"].items()}
    return filled


def check_amounts(quota: Json) -> str | None:
    """Return what is invalid in one quota's own amounts, or None."""
    amounts = own_amounts(quota)
    for name in ("max", "min", "weight"):
        if any(amount < 0 for amount in amounts[name].values()):
            return f"{name}<0"
    for kind, _ in min_against_max(amounts["min"], amounts["max"]):
        return "min_key_not_in_max" if kind == "MinKeyNotInMax" else "min>max"
    used, maximum = amounts["used"], amounts["max"]
    for key in quota.get("strict_keys", ()):
        if key in used and key not in maximum:
            return "strict_key_missing"
        if key in used and maximum[key] < used[key]:
            return "strict_max<used"
    return None


def check_guarantee(quota: Json, chain: list[Json]) -> bool:
    """Return whether raising min above what is guaranteed fits the ancestors."""
    wanted = parse_amounts(quota["min"])
    guaranteed = parse_amounts(quota.get("guaranteed") or {})
    for link in chain:
        if fits(wanted, guaranteed):
            return True
        parent = link["parent"]
        needed = maximum(wanted, guaranteed)
        for sibling in link.get("siblings", ()):
            needed = add(needed, parse_amounts(sibling["guaranteed"]))
        wanted, guaranteed = needed, parse_amounts(parent.get("guaranteed") or {})
        if fits(wanted, maximum(guaranteed, parse_amounts(parent.get("min") or {}))):
            return True
    return fits(wanted, guaranteed)


class QuotaTopology:
    """The validating webhook's view of all quotas, fed with a sequence of requests."""

    def __init__(self) -> None:
        self.quotas: dict[str, Json] = {}
        self.pods: dict[str, int] = {}

    def step(self, step: Json) -> bool:
        """Apply one step; return whether it is accepted."""
        match step["op"]:
            case "add":
                try:
                    return self._add(fill_quota(step["quota"], list(self.quotas.values())))
                except LookupError:
                    return False
            case "add_raw":
                return self._add(step["quota"])
            case "update":
                return self._update(step["quota"])
            case "delete":
                return self._delete(step["name"])
            case "pod_add" | "pod_del":
                change = 1 if step["op"] == "pod_add" else -1
                label = step["quota_label"]
                self.pods[label] = self.pods.get(label, 0) + change
                return True
            case _:
                raise ValueError(f"unknown step {step}")

    def _add(self, quota: Json) -> bool:
        if quota["name"] in self.quotas or not self._is_valid(quota):
            return False
        self.quotas[quota["name"]] = quota
        return True

    def _update(self, quota: Json) -> bool:
        old = self.quotas.get(quota["name"])
        if old is None or quota["name"] in SPECIAL_QUOTAS:
            return False
        new = {**old, **quota}
        if new.get("tree", "") != old.get("tree", "") or not self._is_valid(new):
            return False
        if old.get("is_parent") and not new.get("is_parent") and self._children(new["name"]):
            return False
        if not old.get("is_parent") and new.get("is_parent") and self.pods.get(new["name"]):
            return False
        self.quotas[new["name"]] = new
        return True

    def _delete(self, name: str) -> bool:
        if name not in self.quotas or name in SPECIAL_QUOTAS:
            return False
        if self._children(name) or self.pods.get(name):
            return False
        del self.quotas[name]
        return True

    def _children(self, name: str) -> list[Json]:
        return [quota for quota in self.quotas.values() if quota.get("parent") == name]

    def _is_valid(self, quota: Json) -> bool:
        if check_amounts(quota) is not None:
            return False
        amounts = own_amounts(quota)
        parent_name = quota.get("parent") or ROOT_QUOTA
        children = self._children(quota["name"])
        if parent_name == ROOT_QUOTA:
            return do_mins_fit(
                amounts["min"],
                None,
                [],
                [parse_amounts(child.get("min") or {}) for child in children],
            )
        parent = self.quotas.get(parent_name)
        if parent is None or not parent.get("is_parent"):
            return False
        if not do_tree_ids_agree(quota.get("tree", ""), parent.get("tree", ""), None):
            return False
        if set(parent["max"]) != set(quota["max"]):
            return False
        siblings = [one for one in self._children(parent_name) if one["name"] != quota["name"]]
        return do_mins_fit(
            amounts["min"],
            parse_amounts(parent.get("min") or {}),
            [parse_amounts(sibling.get("min") or {}) for sibling in siblings],
            [parse_amounts(child.get("min") or {}) for child in children],
        )


def admit_pod(vector: Json) -> tuple[bool, Amounts]:
    """Return whether the gate EnableQuotaAdmission allows a pod to be created, and the new sum."""
    counted = parse_amounts(vector["child_request"])
    asked = masked(parse_amounts(vector["pod"]), vector["max"])
    wanted = add(counted, asked)
    limit = parse_amounts(vector.get("admission") or vector["max"])
    if over(masked(wanted, asked), limit):
        return False, counted
    return True, wanted


def profile_quota(vector: Json) -> Json:
    """Return min, total, unschedulable and tree id that the profile controller writes."""
    profile = vector["profile"]
    ratio = Fraction(profile["ratio"] or "1")
    allocatable = parse_amounts(vector["node_allocatable"])
    sums: dict[str, Amounts] = {"total": {}, "unschedulable": {}}
    for node in vector["nodes"]:
        if node["zone"] != profile["zone"]:
            continue
        sums["total"] = add(sums["total"], allocatable)
        if not node["ready"]:
            sums["unschedulable"] = add(sums["unschedulable"], allocatable)
    scaled = {
        name: {key: int(amount * ratio) for key, amount in amounts.items()}
        for name, amounts in sums.items()
    }
    keys = profile["resource_keys"] or ["cpu", "memory"]
    tree_id = profile["tree_label"] or fnv1a64(f"{profile['namespace']}/{profile['name']}")
    return {**scaled, "min": masked(scaled["total"], keys), "tree_id": tree_id}


def revoke_pods(vector: Json) -> list[str]:
    """Return the pods that the overuse controller evicts."""
    runtime = parse_amounts(vector["runtime"])
    used = parse_amounts(vector["used"])
    taken: list[Json] = []
    for pod in reversed(vector["pods"]):
        if not over(used, runtime):
            break
        if not pod.get("np"):
            used = subtract(used, parse_amounts(pod["req"]))
            taken.append(pod)
    if over(used, runtime):
        return [pod["name"] for pod in taken]
    evicted: list[str] = []
    for pod in reversed(taken):
        spared = add(used, parse_amounts(pod["req"]))
        if over(spared, runtime):
            evicted.append(pod["name"])
        else:
            used = spared
    return evicted


def can_preempt(vector: Json) -> bool:
    """Return whether a pod may evict another one of its quota."""
    preemptor, victim = vector["preemptor"], vector["victim"]
    if victim.get("preemptible_label") == "false":
        return False
    if preemptor["quota"] != victim["quota"]:
        return False
    if victim["quota"] == DEFAULT_QUOTA and vector.get("disable_default_quota_preemption", True):
        return False
    return bool(preemptor["priority"] > victim["priority"])


def own_amounts(quota: Json) -> dict[str, Amounts]:
    """Return all amounts that a quota of the vectors has."""
    names = ("min", "max", "weight", "used")
    return {name: parse_amounts(quota.get(name) or {}) for name in names}
