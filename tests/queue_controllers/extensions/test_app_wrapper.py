"""Facts about AppWrapper."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_state import NO_PODS, PodCounts, judge_job
from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.app_wrapper import (
    MAX_WRAPPED_BYTES,
    AppWrapper,
    AppWrapperAdapter,
    _read_kind,
    _read_large_template,
    _read_template,
)
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    LabelsPods,
    LearnsDemand,
    ListsTemplates,
    ManagedElsewhere,
    PodStamp,
    PrioritySource,
    TakesTemplateUpdates,
    read_facts,
)
from queue_controllers.jobframework.list_patches import fill_lists
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.testing.object_builders import pod_spec
from shared_api.well_known_labels import RELEASED_AT
from tests.sample_jobs import sample, shown_sets, troubles_of

ADAPTER: GenericJob[AppWrapper] = AppWrapperAdapter()
ONE_RUNS = PodCounts(total=1, living=1, running=1)


def pod(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"spec": pod_spec({"cpu": cpu}, **spec)}


def component(
    *pod_sets: dict[str, Any], kind: str = "Job", infos: Any = None, **spec: Any
) -> dict[str, Any]:
    made: dict[str, Any] = {"template": {"kind": kind, "spec": spec or {"template": pod()}}}
    if pod_sets:
        made["podSets"] = list(pod_sets)
    if infos is not None:
        made["podSetInfos"] = infos
    return made


def decoded(body: dict[str, Any]) -> AppWrapper:
    return msgspec.json.decode(msgspec.json.encode(body), type=AppWrapper)


def job(
    *components: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any
) -> AppWrapper:
    body = {
        "metadata": {"name": "main"},
        "spec": {"components": components, **spec},
        "status": status or {},
    }
    return decoded(body)


SET = {"path": "template.spec.template"}


def test_it_has_these_abilities() -> None:
    for ability in (LabelsPods, LearnsDemand, ListsTemplates, ManagedElsewhere):
        assert isinstance(ADAPTER, ability)
    assert isinstance(ADAPTER, TakesTemplateUpdates)


def test_pods_name_their_wrapper() -> None:
    labels = {"workload.codeflare.dev/appwrapper": "main"}
    assert AppWrapperAdapter.pod_labels == tuple(labels)
    assert AppWrapperAdapter().job_name_of(labels) == "main"
    assert AppWrapperAdapter().job_name_of({}) == ""


# --- pod sets -----------------------------------------------------------------------------------


def counts(of: AppWrapper) -> dict[str, int]:
    return {each.name: each.count for each in ADAPTER.pod_sets(of)}


def test_sets_are_those_of_the_components_in_their_order() -> None:
    ray = component(
        {"path": "template.spec.head.template"},
        {"path": "template.spec.groups[1].template", "replicas": 4},
        kind="RayCluster",
        head={"template": pod("2")},
        groups=[{"template": pod("3")}, {"template": pod("5")}],
    )
    of = job(ray, component({**SET, "replicas": 0}), component(SET))
    assert counts(of) == {"raycluster-0": 1, "raycluster-1": 4, "job-2": 0, "job-3": 1}
    assert demand_of(ADAPTER.pod_sets(of)) == {"cpu": 23_000}


def test_the_controllers_status_comes_first() -> None:
    status = {"phase": "Suspended", "componentStatus": [{"podSets": [{**SET, "replicas": 3}]}]}
    assert counts(job(component(), status=status)) == {"job-0": 3}
    assert counts(job(component({**SET, "replicas": 2}), status=status)) == {"job-0": 3}
    nothing = {"phase": "Suspended", "componentStatus": [{}, {}]}
    of = job(component(kind="Service"), component({**SET, "replicas": 2}), status=nothing)
    assert counts(of) == {"job-0": 2}
    assert AppWrapperAdapter().why_unknown(of) == ""


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        pytest.param((component(SET), component()), "spec.components[1] has no podSets", id="none"),
        pytest.param(
            (component(SET, {"path": "template.spec.other"}),),
            "spec.components[0].podSets[1]: path 'template.spec.other' leads to no pod template",
            id="a path without a target",
        ),
        pytest.param((component({"path": "spec.template"}),), "cannot be read", id="no path"),
        pytest.param(
            (component({"path": "template.spec..x"}),), "'..x' cannot be read", id="two dots"
        ),
        pytest.param(
            (component({"path": "template.spec[0]"}),), "leads to no", id="a position in a map"
        ),
        pytest.param(
            (component({"path": "template.spec.list[1]"}, list=[pod()]),),
            "leads to no",
            id="a position beyond the end",
        ),
        pytest.param(
            (component({"path": "template.spec.list.x"}, list=[pod()]),),
            "leads to no",
            id="a field of a list",
        ),
        pytest.param(
            (component(SET, template={"spec": {"containers": 3}}),),
            "pod template at 'template.spec.template'",
            id="no pod",
        ),
        pytest.param(
            (component(SET, template={"metadata": {}}),), "leads to no", id="without a spec"
        ),
    ],
)
def test_one_that_cannot_be_read_is_held_with_the_reason(
    parts: tuple[dict[str, Any], ...], why: str
) -> None:
    facts = read_facts(ADAPTER, job(*parts), held_by_annotation=False)
    assert why in facts.unknown_demand
    assert facts.pod_sets == ()
    assert ADAPTER.release_patch(job(*parts), {}) == {"spec": {"suspend": False}}


@pytest.mark.parametrize("depth", [65, 500, 900])
def test_one_that_is_nested_too_deep_is_held_with_the_reason(depth: int) -> None:
    """The decoder alone gives up at a depth that depends on the stack; a user chooses it."""
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    of = job(component(SET, depths=deep))
    assert "nested more than 64 levels deep" in AppWrapperAdapter().why_unknown(of)


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_generated_wrappers(seed: int) -> None:
    """`replicas` pods (1) of every template; paths lead through maps and lists."""
    rng = random.Random(seed)
    components, milli = [], 0
    for _ in range(rng.randint(1, 4)):
        sets, groups = [], []
        for at in range(rng.randint(1, 3)):
            cpu = rng.randint(1, 5000)
            groups.append({"template": pod(f"{cpu}m"), "replicas": rng.randint(0, 99)})
            each: dict[str, Any] = {"path": f"template.spec.groups[{at}].template"}
            if rng.random() < 0.7:
                each["replicas"] = rng.randint(0, 9)
            sets.append(each)
            milli += each.get("replicas", 1) * cpu
        components.append(component(*sets, groups=groups))
    assert demand_of(ADAPTER.pod_sets(job(*components))).get("cpu", 0) == milli


def test_priority_is_that_of_the_first_template_with_one() -> None:
    high = component(SET, template=pod(priorityClassName="high"))
    assert ADAPTER.priority_of(job(component(SET), high)) == PrioritySource("high")


# --- status -------------------------------------------------------------------------------------


def condition(kind: str, status: str, **more: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-11-01T10:00:00Z", **more}


AGAIN = [condition("QuotaReserved", "False", reason="Suspended")]
DEPLOYED = [condition("ResourcesDeployed", "True")]
GONE = [condition("ResourcesDeployed", "False")]
RELEASED = {RELEASED_AT: "2026-11-01T09:00:00.000000Z"}


@pytest.mark.parametrize(
    ("phase", "conditions", "suspend", "pods", "want"),
    [
        pytest.param("", [], True, NO_PODS, "held", id="not reconciled"),
        pytest.param("Suspended", [], True, NO_PODS, "held", id="created suspended"),
        pytest.param("Suspended", [], False, NO_PODS, "starting", id="resumed"),
        pytest.param("Resuming", DEPLOYED, False, NO_PODS, "starting", id="creates its objects"),
        pytest.param("Running", DEPLOYED, False, NO_PODS, "starting", id="no pod runs yet"),
        pytest.param("Running", DEPLOYED, False, ONE_RUNS, "running", id="runs"),
        pytest.param("Running", DEPLOYED, True, ONE_RUNS, "stopping", id="suspended while it runs"),
        pytest.param("Suspending", DEPLOYED, True, NO_PODS, "stopping", id="deletes its objects"),
        pytest.param("Suspended", AGAIN, True, NO_PODS, "held", id="all are gone"),
        pytest.param("Suspended", AGAIN, True, ONE_RUNS, "stopping", id="except a pod"),
        pytest.param("Resetting", DEPLOYED, False, NO_PODS, "starting", id="tries again"),
        pytest.param("Succeeded", DEPLOYED, False, NO_PODS, "finished", id="succeeded"),
        pytest.param("Failed", DEPLOYED, False, ONE_RUNS, "starting", id="failed, still there"),
        pytest.param("Failed", GONE, False, NO_PODS, "finished", id="failed, and cleaned up"),
        pytest.param("Failed", [], False, NO_PODS, "finished", id="failed before it created any"),
        pytest.param("Terminating", DEPLOYED, False, NO_PODS, "starting", id="being deleted"),
    ],
)
def test_its_state(
    phase: str, conditions: list[dict[str, str]], suspend: bool, pods: PodCounts, want: str
) -> None:
    of = job(status={"phase": phase, "conditions": conditions}, suspend=suspend)
    if conditions:
        meta = msgspec.structs.replace(of.metadata, annotations=RELEASED)
        of = msgspec.structs.replace(of, metadata=meta)
    facts = read_facts(ADAPTER, of, held_by_annotation=False)
    assert judge_job(facts, pods, admitted=False, believed=False).state.value == want


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        ([], ""),
        ([condition("Unhealthy", "True", message="", reason="CreateFailed")], "CreateFailed"),
        ([condition("Unhealthy", "True", message="no such image")], "no such image"),
    ],
)
def test_a_failure_has_a_message(conditions: list[dict[str, str]], want: str) -> None:
    outcome = ADAPTER.status_of(job(status={"phase": "Failed", "conditions": conditions})).outcome
    assert outcome is not None
    assert (outcome.succeeded, outcome.message) == (False, want)


def test_a_success_is_one() -> None:
    outcome = ADAPTER.status_of(job(status={"phase": "Succeeded", "conditions": DEPLOYED})).outcome
    assert outcome is not None
    assert outcome.succeeded


# --- patches ------------------------------------------------------------------------------------


def test_annotations_go_through_infos_one_for_each_set() -> None:
    two = component(SET, {"path": "template.spec.template"})
    of = job(component(SET), component(kind="Service"), two, status={"componentStatus": [{}] * 3})
    assert ADAPTER.release_patch(of, {}) == {"spec": {"suspend": False}}
    stamps = {
        "job-0": PodStamp(labels={"l": "1"}),
        "job-2": PodStamp(annotations={"a": "2"}),
    }
    assert ADAPTER.release_patch(of, stamps) == {
        "spec": {
            "suspend": False,
            "components": [
                {"podSetInfos": [{"labels": {"l": "1"}}]},
                {},
                {"podSetInfos": [{}, {"annotations": {"a": "2"}}]},
            ],
        }
    }


def test_updates_go_through_infos_and_show_in_the_template() -> None:
    own = {"key": "own", "operator": "Exists"}
    new = {"key": "new", "operator": "Exists"}
    body = component(SET, infos=[{"labels": {"l": "1"}}], template=pod(tolerations=[own]))
    of = job(body)
    update = TemplateUpdate(labels={"l": None}, node_selector={"zone": "z"}, tolerations=(own, new))
    patch = AppWrapperAdapter().update_patch(of, {"job-0": update})
    info = {"labels": {"l": None}, "nodeSelector": {"zone": "z"}, "tolerations": [new]}
    assert patch == {"spec": {"components": [{"podSetInfos": [info]}]}}
    found = {"spec": {"components": [body]}}
    (after,) = fill_lists(patch, found, AppWrapperAdapter.list_keys)["spec"]["components"]
    assert after["template"] == body["template"]
    (pod_set,) = ADAPTER.pod_sets(job(after))
    assert pod_set.template.metadata.labels == {}
    assert pod_set.template.spec.node_selector == {"zone": "z"}
    assert pod_set.template.spec.tolerations == (own, new)
    assert AppWrapperAdapter().update_patch(of, {}) == {}


def test_existing_infos_show_in_the_template() -> None:
    infos = [{"labels": {"l": "1"}, "annotations": {"a": "2"}}]
    (pod_set,) = ADAPTER.pod_sets(job(component(SET, infos=infos)))
    assert pod_set.template.metadata.labels == {"l": "1"}
    assert pod_set.template.metadata.annotations == {"a": "2"}


def test_the_sample_and_its_release() -> None:
    body = sample("appwrapper")
    assert troubles_of(body, "appwrappers") == []
    assert shown_sets(ADAPTER, body) == {
        "job-0": (3, {"cpu": "2", "memory": "4Gi"}),
        "pod-1": (1, {"cpu": "100m"}),
    }
    of = decoded(body)
    assert ADAPTER.priority_of(of) == PrioritySource("high")
    stamps = {name: PodStamp(labels={"l": "1"}) for name in ("job-0", "pod-1")}
    patch = ADAPTER.release_patch(of, stamps)
    whole = fill_lists(patch, body, AppWrapperAdapter.list_keys)
    assert troubles_of({**body, **whole}, "appwrappers") == []


def test_only_objects_of_usual_size_are_remembered_several() -> None:
    notes: tuple[Any, ...] = ("x" * MAX_WRAPPED_BYTES, [{}] * (MAX_WRAPPED_BYTES // 200))
    for note in notes:
        before = _read_template.cache_info(), _read_kind.cache_info()
        of = job(component(SET, template=pod(), note=note))
        assert counts(of) == {"job-0": 1}
        assert demand_of(ADAPTER.pod_sets(of)) == {"cpu": 1000}
        assert (_read_template.cache_info(), _read_kind.cache_info()) == before
    assert _read_large_template.cache_info().currsize == 1
    first, again = (job(component(SET, template=pod("17"))) for _ in range(2))
    assert demand_of(ADAPTER.pod_sets(first)) == {"cpu": 17_000}
    hits = _read_template.cache_info().hits
    assert demand_of(ADAPTER.pod_sets(again)) == {"cpu": 17_000}
    assert _read_template.cache_info().hits > hits
