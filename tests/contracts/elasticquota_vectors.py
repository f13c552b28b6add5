"""Runs a file of ElasticQuota vectors: `python -m tests.contracts.elasticquota_vectors FILE`.

The file is the JSON of `elasticquota-vectors.json` (its `readme` explains the format), plain or
gzipped. Prints one line per failure and `N passed, M failed`; exits 1 on any failure.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from queue_scheduler.decision import Reason
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import Rounding
from queue_scheduler.quota.quota_spec import QuotaSpec, parse_quota
from queue_scheduler.quota.quota_tree import build_forest, tree_totals
from queue_scheduler.quota.runtime_contract import ContractBreach, ContractRules, find_breach
from queue_scheduler.quota.runtime_division import Claim, divide, scale_mins
from queue_scheduler.quota.webhook_rules import (
    are_keys_consistent,
    do_mins_fit,
    do_tree_ids_agree,
)
from shared_api.objects.elastic_quota import ElasticQuota, ElasticQuotaSpec
from shared_api.objects.meta import ObjectMeta
from shared_api.resource_list import Amounts, parse_amounts
from shared_api.well_known_labels import (
    QUOTA_ALLOW_LENT,
    QUOTA_IS_PARENT,
    QUOTA_PARENT,
    QUOTA_SHARED_WEIGHT,
)
from tests.contracts.koordinator_model import (
    Json,
    SchedulerModel,
    fnv1a64,
    masked,
    over,
    spec_of,
)
from tests.contracts.koordinator_webhook import (
    QuotaTopology,
    admit_pod,
    can_preempt,
    check_amounts,
    check_guarantee,
    fill_quota,
    profile_quota,
    quota_of_pod,
    revoke_pods,
)

ROUNDINGS = {"hamilton": Rounding.LARGEST_REMAINDER, "half_up": Rounding.HALF_UP}


class Mismatch(AssertionError):
    """The outcome of a vector differs."""


def load(path: Path) -> Json:
    """Return the decoded file, unpacked if its name ends in .gz."""
    data = path.read_bytes()
    document: Json = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return document


def expect(what: str, got: object, want: object) -> None:
    """Raise unless the two are equal."""
    if got != want:
        raise Mismatch(f"{what}: got {got}, want {want}")


def expect_amounts(what: str, got: Mapping[str, int], want: Mapping[str, int]) -> None:
    """Raise unless the two are equal; a missing key is 0."""
    expect(what, _without_zeros(got), _without_zeros(want))


def _without_zeros(amounts: Mapping[str, int]) -> Amounts:
    return {key: amounts[key] for key in sorted(amounts) if amounts[key]}


def roundings_of(vector: Json) -> list[Rounding]:
    """Return the rounding rules that a vector applies to."""
    rounding = vector.get("rounding", "any")
    return list(ROUNDINGS.values()) if rounding == "any" else [ROUNDINGS[rounding]]


# --- division -----------------------------------------------------------------------------------


def run_redistribute(vector: Json) -> None:
    nodes = sorted(vector["nodes"], key=lambda node: str(node["name"]))
    for rounding in roundings_of(vector):
        claims = [
            Claim(
                node["weight"],
                node["request"],
                max(node["min"], node["guarantee"]),
                node["lent"],
            )
            for node in nodes
        ]
        granted = divide(vector["total"], claims, rounding)
        got = {node["name"]: amount for node, amount in zip(nodes, granted, strict=True)}
        for name, amount in vector.get("expect", {}).items():
            expect(name, got[name], amount)
        for name, amount in vector.get("derived_expect", {}).items():
            expect(name, got[name], amount)
        for name, amount in vector.get("expect_at_least", {}).items():
            expect(f"{name} has at least {amount}", got[name] >= amount, want=True)
        if "expect_sum" in vector:
            expect("sum", sum(granted), vector["expect_sum"])


def run_scale_min(vector: Json) -> None:
    children = vector["children"]
    got = scale_mins(
        parse_amounts(vector["total"]),
        {child["name"]: parse_amounts(child["min"]) for child in children},
        frozenset(child["name"] for child in children if not child.get("scalable", True)),
    )
    for name, amounts in vector["expect"].items():
        expect_amounts(name, got[name], parse_amounts(amounts))


def run_limit_request(vector: Json) -> None:
    spec = spec_of({"name": "q", "max": vector["max"]})
    model = SchedulerModel({}, Rounding.HALF_UP)
    model.specs["q"] = spec
    model.change("request", "q", parse_amounts(vector["request"]))
    got = model.divide().limited["q"]
    expect_amounts("limited", got, parse_amounts(vector["expect"]))


def run_clamp(vector: Json) -> None:
    model = SchedulerModel({}, Rounding.HALF_UP)
    model.change("request", "q", parse_amounts(vector["start"]))
    model.change("request", "q", parse_amounts(vector["delta"]))
    expect_amounts("clamped", model.sums["request"]["q"], parse_amounts(vector["expect"]))


def run_mask_runtime(vector: Json) -> None:
    got = masked(parse_amounts(vector["runtime"]), vector["max"])
    expect("masked", got, parse_amounts(vector["expect"]))


def run_shared_weight(vector: Json) -> None:
    # With a complete object, since the annotation is read defensively.
    quota = quota_object({"name": "q", "max": vector["max"]}, vector["annotation"])
    expect_amounts("weight", parse_quota(quota).weight, parse_amounts(vector["expect"]))


def run_tree(vector: Json) -> None:
    for rounding in roundings_of(vector):
        model = SchedulerModel(vector["config"], rounding)
        for number, step in enumerate(vector["steps"]):
            where = f"{rounding.value} step {number}"
            if "expect" in step:
                check_fields(where, model, step["expect"])
            elif "prefilter" in step:
                check_prefilter(where, model, step)
            else:
                model.step(step)


def check_fields(where: str, model: SchedulerModel, wanted: Json) -> None:
    """Compare the fields that a step names."""
    fields = model.fields(model.divide())
    for quota, expected in wanted.items():
        for name, amounts in expected.items():
            what = f"{where} {quota} {name}"
            if name == "runtime_keys":
                expect(what, sorted(fields[quota]["runtime"]), sorted(amounts))
            else:
                expect_amounts(what, fields[quota][name], parse_amounts(amounts))


def check_prefilter(where: str, model: SchedulerModel, step: Json) -> None:
    """Compare the verdict on a pod."""
    asked = step["prefilter"]
    verdict = model.prefilter(
        asked["quota"],
        parse_amounts(asked["req"]),
        model.divide(),
        is_non_preemptible=asked.get("np", False),
        checks_parents=asked.get("check_parent", model.config.get("check_parent", False)),
        uses_runtime=asked.get("runtime_quota", model.config.get("runtime_quota", True)),
    )
    want = step["result"]
    expect(where, verdict.as_json(), {**want, "exceed": sorted(want["exceed"])})


def run_prefilter(vector: Json) -> None:
    amounts = masked(parse_amounts(vector["pod"]), vector["max_keys"])
    limit = parse_amounts(vector["runtime" if vector["enable_runtime_quota"] else "max"])
    used = parse_amounts(vector["used"])
    exceed = over({key: used.get(key, 0) + amounts.get(key, 0) for key in used | amounts}, limit)
    expect("exceed", exceed, sorted(vector["expect"]["exceed"]))
    expect("allow", not exceed, vector["expect"]["allow"])


def run_prefilter_chain(vector: Json) -> None:
    pod = parse_amounts(vector["pod"])
    got: Json = {"allow": True, "exceed": []}
    for level, link in enumerate(vector["chain"]):
        used, limit = parse_amounts(link["used"]), parse_amounts(link["limit"])
        keys = pod if level else used | pod
        exceed = over({key: used.get(key, 0) + pod.get(key, 0) for key in keys}, limit)
        if exceed:
            got = {"allow": False, "at": link["name"], "exceed": exceed}
            break
    expect("verdict", got, vector["expect"])


# --- the contract of a queue --------------------------------------------------------------------


def run_dequeue(vector: Json) -> None:
    for rounding in roundings_of(vector):
        breach = dequeue_breach(vector, rounding)
        got = {"admit": breach is None, "why": _why(breach, vector), "exceed": []}
        if breach is not None:
            got["exceed"] = list(breach.exceed)
        want = {**vector["expect"], "exceed": sorted(vector["expect"].get("exceed", []))}
        expect(rounding.value, got, want)


def dequeue_breach(vector: Json, rounding: Rounding) -> ContractBreach | None:
    """Return how a dequeue vector breaks the contract, or None."""
    config = vector.get("config") or {}
    model = SchedulerModel(config, rounding)
    model.step({"total": vector["total"]})
    for quota in vector["quotas"]:
        model.step({"quota": quota})
    for pod in vector.get("pods", ()):
        model.step({"pod": pod})
    for number, unit in enumerate(vector.get("admitted", ())):
        model.step({"pod": {**unit, "name": f"admitted-{number}", "node": False}})
    candidate = vector["candidate"]
    quota = candidate["quota"]
    keys = model.specs[quota].max if quota in model.specs else model.special_max
    admission = config.get("admission")
    rules = ContractRules(
        division=model.rules,
        check_parent=config.get("check_parent", False),
        uses_runtime=config.get("runtime_quota", True),
        reclaim=config.get("reclaim", False),
        admission=admission
        and {name: parse_amounts(amounts) for name, amounts in admission.items()},
    )
    job = Demand(masked(parse_amounts(candidate["req"]), keys), bool(candidate.get("np")))
    return find_breach(
        model.forest().trees[""],
        model.sums["request"],
        model.sums["np_request"],
        model.total,
        quota,
        job,
        rules,
    )


def _why(breach: ContractBreach | None, vector: Json) -> str:
    if breach is None:
        return ""
    match breach.reason:
        case Reason.OVER_RUNTIME:
            return "limit"
        case Reason.NON_PREEMPTIBLE_OVER_MIN:
            return "min"
        case Reason.OVER_PARENT_RUNTIME | Reason.OVER_PARENT_MAX:
            return f"parent:{breach.quota}"
        case Reason.HURTS_OTHERS:
            return f"hurts:{breach.quota}"
        case _:
            return "admission" if (vector.get("config") or {}).get("admission") else "limit"


# --- names, trees, webhooks ---------------------------------------------------------------------


def run_quota_of_pod(vector: Json) -> None:
    expect("quota", quota_of_pod(vector["pod"], vector["quotas"]), vector["expect"])


def quota_object(quota: Json, weight: str | None = None) -> ElasticQuota:
    """Return the API object of a quota as the vectors write it, with this weight annotation."""
    labels = {
        QUOTA_PARENT: quota.get("parent", ""),
        QUOTA_IS_PARENT: str(quota.get("is_parent", False)).lower(),
        QUOTA_ALLOW_LENT: str(quota.get("allow_lent", True)).lower(),
    }
    if weight is None and quota.get("weight") is not None:
        weight = json.dumps(quota["weight"])
    return ElasticQuota(
        metadata=ObjectMeta(
            name=quota["name"],
            labels=labels,
            annotations={} if weight is None else {QUOTA_SHARED_WEIGHT: weight},
        ),
        spec=ElasticQuotaSpec(min=quota.get("min") or {}, max=quota.get("max") or {}),
    )


def tree_root(tree: str, step: Json) -> QuotaSpec:
    """Return the root quota of a tree with this total."""
    return QuotaSpec(
        name=f"root-of-{tree}",
        tree_id=tree,
        is_tree_root=True,
        ignores_default_tree=step.get("ignore_default_tree", False),
        total=parse_amounts(step["total"]),
    )


def run_multi_tree_total(vector: Json) -> None:
    roots: dict[str, Json] = {}
    nodes_total = parse_amounts(vector["nodes_total"])
    for step in vector["steps"]:
        if step["op"] == "delete":
            roots.pop(step["tree"])
        else:
            roots[step["tree"]] = step
        specs = [tree_root(name, root) for name, root in roots.items()]
        got = tree_totals(build_forest(specs, multi_quota_tree=True), nodes_total)
        for tree, total in step["expect"].items():
            expect_amounts(tree, got[tree], parse_amounts(total))


def run_wh_self(vector: Json) -> None:
    expect("error", check_amounts(vector["quota"]), vector["expect"])


def run_wh_keys(vector: Json) -> None:
    quotas = [
        quota and {name: parse_amounts(quota.get(name) or {}) for name in ("min", "max")}
        for quota in (vector["quota"], vector["parent"], vector["child"])
    ]
    got = are_keys_consistent(*quotas, relaxed=vector["enable_update_resource_key"])
    expect("ok", got, vector["expect"])


def run_wh_min(vector: Json) -> None:
    parent, child = vector["parent"], vector["child"]
    got = do_mins_fit(
        parse_amounts(vector["quota"]["min"]),
        parent and parse_amounts(parent["min"]),
        [parse_amounts(sibling["min"]) for sibling in vector["siblings"]],
        [parse_amounts(child["min"])] if child else [],
    )
    expect("ok", got, vector["expect"])


def run_wh_tree_id(vector: Json) -> None:
    got = do_tree_ids_agree(vector["quota"], vector["parent"], vector["child"])
    expect("ok", got, vector["expect"])


def run_wh_fill(vector: Json) -> None:
    filled: list[Json] = []
    for quota in vector["quotas"]:
        filled.append(fill_quota(quota, filled))
    for got, want in zip(filled, vector["expect"], strict=True):
        expect("parent", got["parent"], want["parent"])
        expect("tree", got.get("tree", ""), want["tree"])
        expect("weight", parse_amounts(got["weight"]), parse_amounts(want["weight"]))


def run_wh_guarantee(vector: Json) -> None:
    expect("ok", check_guarantee(vector["quota"], vector["chain"]), vector["expect"])


def run_wh_sequence(vector: Json) -> None:
    topology = QuotaTopology()
    for number, step in enumerate(vector["steps"]):
        expect(f"step {number} {step['op']}", topology.step(step), step.get("ok", True))


def run_pod_admission(vector: Json) -> None:
    expected = vector["expect"]
    is_ok, child_request = admit_pod(vector)
    expect("ok", is_ok, expected["ok"])
    expect_amounts("child_request", child_request, parse_amounts(expected["child_request"]))


def run_profile(vector: Json) -> None:
    got = profile_quota(vector)
    want = vector["expect"]
    for name in ("min", "total", "unschedulable"):
        expect_amounts(name, got[name], parse_amounts(want[name]))
    tree_id = want["tree_id"]
    if tree_id.startswith("fnv1a64("):
        tree_id = fnv1a64(tree_id.removeprefix("fnv1a64(").removesuffix(")"))
    expect("tree_id", got["tree_id"], tree_id)


def run_revoke(vector: Json) -> None:
    got = revoke_pods(vector)
    if "expect" in vector:
        expect("revoked", sorted(got), sorted(vector["expect"]))
    if "expect_count" in vector:
        expect("count", len(got), vector["expect_count"])


def run_can_preempt(vector: Json) -> None:
    expect("may", can_preempt(vector), vector["expect"])


def run_tree_id_hash(vector: Json) -> None:
    expect("hash", fnv1a64(f"{vector['namespace']}/{vector['name']}"), vector["expect"])


RUNNERS: dict[str, Callable[[Json], None]] = {
    name.removeprefix("run_"): function
    for name, function in list(globals().items())
    if name.startswith("run_") and callable(function)
}


def run_vector(vector: Json) -> str | None:
    """Return the mismatch of a vector, or None."""
    runner = RUNNERS.get(vector["kind"])
    if runner is None:
        return f"unknown kind {vector['kind']!r}"
    try:
        runner(vector)
    except Mismatch as mismatch:
        return str(mismatch)
    except Exception as error:  # noqa: BLE001 -- a broken vector fails alone, the others run
        return f"{type(error).__name__}: {error}"
    return None


def main(arguments: list[str]) -> int:
    """Run the given file; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m tests.contracts.elasticquota_vectors FILE", file=sys.stderr)
        return 2
    passed = failed = 0
    try:
        vectors = load(Path(arguments[0]))["vectors"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"{arguments[0]}: {error!r}", file=sys.stderr)
        return 2
    for vector in vectors:
        wrong = run_vector(vector)
        if wrong is None:
            passed += 1
        else:
            failed += 1
            print(f"{vector.get('id')}: {wrong}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
