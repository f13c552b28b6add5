"""Runs a file of observations of real koord-schedulers against this project's quota code.

`python -m tests.contracts.elasticquota_observed FILE`, FILE being the JSON of
`elasticquota-observed.json`, plain or gzipped. Every `ob-*` (published numbers and verdicts on
pending pods) and every non-racy `oa-*` (pods released one by one) is run, with the rounding of the
observed version; `os-*` (step by step) and `or-*` (races, counted) are for reading only. All are of
unmodified koord-schedulers, v1.8.0 and a7a1b76b. Prints one line per failure and
`N passed, M failed`; exits 1 on any.

Where the scheduler's state depends on history that a queue cannot see (`koord_scheduler_state`),
the numbers need not be equal: a vector passes if the queue never promises more than the scheduler
gave. The line before the last counts those vectors separately.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from queue_scheduler.quota.koord_scheduler_state import possible_states
from queue_scheduler.quota.quota_decision import Demand, PodStage
from queue_scheduler.quota.quota_settings import QuotaSettings, default_special_max
from queue_scheduler.quota.runtime_division import Division
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.pod import Container, PodSpec, ResourceRequirements
from shared_api.pod_requests import pod_requests
from shared_api.resource_list import Amounts, add, format_amounts, parse_amounts
from shared_api.well_known_labels import DEFAULT_QUOTA, QUOTA_NAME, ROOT_QUOTA
from tests.cautious_runtimes import cautious_runtimes
from tests.contracts.elasticquota_vectors import (
    ROUNDINGS,
    Mismatch,
    expect,
    expect_amounts,
    load,
    quota_object,
)
from tests.contracts.koordinator_model import Json, SchedulerModel, Verdict

ADMITTED = {"allow": True, "why": "", "exceed": []}


def model_of(vector: Json) -> SchedulerModel:
    """Return a scheduler as it was configured for the observation."""
    config = dict(vector["config"])
    if not config.get("tree_id"):
        config["special_weight"] = "max"
    args = vector.get("args") or {}
    special_max = args.get("defaultQuotaGroupMax")
    return SchedulerModel(
        config,
        ROUNDINGS[vector["rounding"]],
        None if special_max is None else parse_amounts(special_max),
    )


def is_unknowable(model: SchedulerModel) -> bool:
    """Return whether the scheduler's numbers depend on history that a queue cannot see."""
    states = possible_states(model.forest().trees[""], model.sums["request"])
    first, *others = (model.divide(state) for state in states)
    return any(
        (other.runtime, other.scaled_min) != (first.runtime, first.scaled_min) for other in others
    )


def divide(model: SchedulerModel) -> Division:
    """Return the division with the least runtime of each quota that the scheduler may have."""
    return cautious_runtimes(
        model.forest().trees[""],
        model.sums["request"],
        model.root_runtime(),
        model.rules,
        own_used=model.sums["used"],
    )


# --- trees --------------------------------------------------------------------------------------


def run_tree(vector: Json) -> bool:
    """Compare the published numbers; return whether the state was unknowable."""
    model = model_of(vector)
    unknowable = False
    for number, step in enumerate(vector["steps"]):
        where = f"step {number}"
        if "expect" in step:
            unknowable = unknowable or is_unknowable(model)
            check_published(where, model, step["expect"])
        elif "prefilter" in step:
            check_verdict(where, model, step)
        else:
            model.step(step)
    return unknowable


def check_published(where: str, model: SchedulerModel, published: Json) -> None:
    """Compare the annotations that the scheduler had written."""
    fields = model.fields(divide(model))
    exact = not is_unknowable(model)
    for quota, expected in published.items():
        for name, amounts in expected.items():
            want = parse_amounts(amounts)
            got = fields[quota][name]
            if exact or name not in {"runtime", "autoscale_min"}:
                expect_amounts(f"{where} {quota} {name}", got, want)
            elif name == "runtime":
                expect_at_most(f"{where} {quota} {name}", got, want)


def expect_at_most(what: str, got: Mapping[str, int], want: Mapping[str, int]) -> None:
    """Raise if more is promised than was given."""
    more = {key: amount for key, amount in got.items() if amount > want.get(key, 0)}
    if more:
        raise Mismatch(f"{what}: promises {more}, the scheduler gave {want}")


def check_verdict(where: str, model: SchedulerModel, step: Json) -> None:
    """Compare the verdict on a pending pod."""
    asked = step["prefilter"]
    got = verdict(model, asked["quota"], parse_amounts(asked["req"]), asked.get("np", False))
    expect_verdict(where, model, got, step["result"])


def verdict(model: SchedulerModel, quota: str, request: Amounts, is_np: bool) -> Verdict:
    """Return the verdict of PreFilter with this project's numbers."""
    return model.prefilter(
        quota,
        request,
        divide(model),
        is_non_preemptible=is_np,
        checks_parents=model.config.get("check_parent", False),
        uses_runtime=model.config.get("runtime_quota", True),
    )


def expect_verdict(where: str, model: SchedulerModel, got: Verdict, want: Json) -> None:
    """Raise if the verdicts differ; in an unknowable state, only if ours allows more."""
    if is_unknowable(model):
        if not got.why:
            expect(where, got.as_json(), want)
    else:
        expect(where, got.as_json(), {**want, "exceed": sorted(want["exceed"])})


# --- admissions ---------------------------------------------------------------------------------


def run_admission(vector: Json) -> bool:
    """Release the pods one by one; return whether the state was unknowable."""
    model = model_of(vector)
    for step in vector["steps"]:
        model.step(step)
    if is_promised(vector):
        expect("promised, and bound", [one["bound"] for one in vector["result"]].count(False), 0)
    unknowable = is_unknowable(model)
    pods = [{**pod, "req": requests_of(pod)} for pod in vector["candidate"]["pods"]]
    # They are created together: each counts as a request before the first one is judged.
    for pod in pods:
        model.step({"pod": pod})
    for pod, want in zip(pods, vector["result"], strict=True):
        unknowable = unknowable or is_unknowable(model)
        got = verdict(model, pod["quota"], parse_amounts(pod["req"]), pod.get("np", False))
        expect_verdict(pod["name"], model, got, want["result"])
        if want["bound"]:
            model.step({"reserve": pod["name"]})
    return unknowable


def is_promised(vector: Json) -> bool:
    """Return whether the quota cache would have admitted the candidate as one job."""
    config, pods = vector["config"], vector["candidate"]["pods"]
    names = {pod["quota"] for pod in pods}
    if not config["runtime_quota"] or len(names) > 1 or ROOT_QUOTA in names:
        return False
    quotas = quotas_of(vector)
    demand: Amounts = {}
    for pod in pods:
        demand = add(demand, parse_amounts(requests_of(pod)))
    quota = names.pop()
    if quota not in quotas.stated.names():
        quota = DEFAULT_QUOTA
    return quotas.check(quota, Demand(demand, any(pod["np"] for pod in pods))) is None


def quotas_of(vector: Json) -> QuotaCache:
    """Return the quota cache of production with what existed before the candidate."""
    config = vector["config"]
    special_max = (vector.get("args") or {}).get("defaultQuotaGroupMax")
    maxima = default_special_max() if special_max is None else parse_amounts(special_max)
    quotas = QuotaCache(
        QuotaSettings(
            koordinator_version=vector["koordinator"],
            scale_min=config["scale_min"],
            check_parent=config["check_parent"],
            default_quota_max=maxima,
            system_quota_max=maxima,
        )
    )
    total: Amounts = {}
    for step in vector["steps"]:
        if "total" in step:
            total = add(total, parse_amounts(step["total"]))
        elif "quota" in step:
            quotas.on_quota(quota_object(step["quota"]))
        else:
            pod = step["pod"]
            quotas.on_foreign(
                pod["name"],
                quotas.stated.by_name.quota_of_pod({QUOTA_NAME: pod["quota"]}, ""),
                parse_amounts(pod["req"]),
                stage=PodStage.BOUND if pod["node"] else PodStage.PENDING,
                non_preemptible=pod["np"],
            )
    quotas.on_capacity(total)
    return quotas


def requests_of(pod: Json) -> Json:
    """Return the requests of a pod, by the function of production if it has several containers."""
    if "containers" not in pod and "init" not in pod:
        return dict(pod["req"])
    spec = PodSpec(
        containers=tuple(_container(requests) for requests in pod.get("containers", [pod["req"]])),
        init_containers=tuple(
            _container(init["req"], restart_policy="Always" if init.get("sidecar") else None)
            for init in pod.get("init", ())
        ),
    )
    return dict(format_amounts(pod_requests(spec)))


def _container(requests: Json, restart_policy: str | None = None) -> Container:
    return Container(
        resources=ResourceRequirements(requests=requests), restart_policy=restart_policy
    )


# --- the command --------------------------------------------------------------------------------


def is_exact_test(vector: Json) -> bool:
    """Return whether an observation must be reproduced exactly: it has no race and no history."""
    return vector["id"].startswith(("ob-", "oa-")) and not vector.get("racy")


def run_vector(vector: Json) -> tuple[str | None, bool]:
    """Return (the mismatch or None, whether the scheduler's state was unknowable)."""
    runner = run_tree if vector["kind"] == "tree" else run_admission
    try:
        return None, runner(vector)
    except Mismatch as mismatch:
        return str(mismatch), False
    except Exception as error:  # noqa: BLE001 -- a broken vector fails alone, the others run
        return f"{type(error).__name__}: {error}", False


def run_all(vectors: Iterable[Json]) -> tuple[int, list[str], int]:
    """Return (passed, failures with their ids, passed in an unknowable state)."""
    passed = unknown = 0
    failures: list[str] = []
    for vector in filter(is_exact_test, vectors):
        wrong, unknowable = run_vector(vector)
        if wrong is not None:
            failures.append(f"{vector['id']}: {wrong}")
            continue
        passed += 1
        unknown += unknowable
    return passed, failures, unknown


def main(arguments: list[str]) -> int:
    """Run the given file; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m tests.contracts.elasticquota_observed FILE", file=sys.stderr)
        return 2
    try:
        vectors = load(Path(arguments[0]))["vectors"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"{arguments[0]}: {error!r}", file=sys.stderr)
        return 2
    passed, failures, unknown = run_all(vectors)
    for failure in failures:
        print(failure)
    print(f"of those passed, {unknown} in a state that no queue can know: never more promised")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
