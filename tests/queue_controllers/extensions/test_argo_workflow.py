"""Facts about Workflow."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext, classify_ownership
from queue_controllers.decision.job_settings import JobSettings
from queue_controllers.decision.job_state import NO_PODS, judge_job
from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.argo_workflow import (
    MAX_RESOURCES_CHARS,
    Workflow,
    WorkflowAdapter,
    _parse_resources,
    read_resources,
)
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    PodStamp,
    PrioritySource,
    TakesTemplateUpdates,
    read_facts,
)
from queue_controllers.jobframework.template_updates import TemplateUpdate
from tests.queue_controllers.owner_kit import NobodyAbove
from tests.recorded_lives import demands_of, told_states
from tests.sample_jobs import sample, shown_sets, troubles_of

ADAPTER: GenericJob[Workflow] = WorkflowAdapter()
KEY = "koord-queue/min-resources"


def job(
    status: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> Workflow:
    metadata = {"name": "main", "annotations": annotations or {KEY: "cpu: 1"}}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Workflow)


@pytest.mark.parametrize(("said", "want"), [(True, True), (False, False), (None, False)])
def test_the_switch(said: bool | None, want: bool) -> None:
    assert ADAPTER.is_suspended(job(suspend=said)) is want
    assert ADAPTER.suspend_patch(job()) == {"spec": {"suspend": True}}


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("cpu: 2\nmemory: 4Gi", {"cpu": 2000, "memory": 4 << 30}, id="ctl-59 YAML"),
        pytest.param(
            '{"cpu": "2", "memory": "4Gi"}', {"cpu": 2000, "memory": 4 << 30}, id="ctl-59 JSON"
        ),
        pytest.param("cpu: 500m", {"cpu": 500}, id="ctl-59 less than one"),
        pytest.param("cpu: 0.5", {"cpu": 500}, id="a fraction"),
        pytest.param("{}", {}, id="zero counts: nothing is charged"),
    ],
)
def test_resources_are_read(text: str, want: dict[str, int]) -> None:
    (found,) = ADAPTER.pod_sets(job(annotations={KEY: text}))
    assert (found.name, found.count, found.is_done) == ("default", 1, False)
    container = found.template.spec.containers[0]
    assert container.resources.requests == container.resources.limits
    assert (container.name, container.image) == ("default", "non-exist")
    assert demand_of((found,)) == want
    assert ADAPTER.why_not_suspendable(job(annotations={KEY: text})) == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "does not say what it needs", id="empty"),
        pytest.param("  \n", "does not say what it needs", id="blank"),
        pytest.param("cpu: [1]", "cannot be read", id="no quantity"),
        pytest.param("cpu: many", "cannot be read", id="no number"),
        pytest.param("cpu: -1", "cannot be read", id="negative"),
        pytest.param("cpu: true", "cannot be read", id="a bool"),
        pytest.param("two cpus", "cannot be read", id="no map"),
        pytest.param("cpu: {", "cannot be read", id="no YAML"),
        pytest.param('{"cpu"', "cannot be read", id="no JSON"),
        pytest.param("[" * 4000, "nested", id="too deep"),
        pytest.param('{"a":' * 800, "nested more", id="too deep, as JSON"),
        pytest.param("cpu: " + "1" * 4000, "at most", id="digits that no number has"),
        pytest.param("cpu: 2001-99-99", "cannot be read", id="no date"),
        pytest.param('cpu: !!int ""', "cannot be read", id="a tag that fits no value"),
        pytest.param("cpu: !!timestamp x", "cannot be read", id="another"),
        pytest.param("a: &x [1]\nb: *x", "aliases", id="aliases"),
        pytest.param("? [cpu]\n: 1", "unhashable", id="a list as a key"),
        pytest.param("cpu: \0", "cannot be read", id="NUL"),
        pytest.param("x" * 5000, "5000 characters", id="too long"),
    ],
)
def test_without_readable_resources_it_is_left_alone(text: str, why: str) -> None:
    of = job(annotations={KEY: text, "other": "x"})
    assert ADAPTER.pod_sets(of) == ()
    assert why in ADAPTER.why_not_suspendable(of)
    assert KEY in ADAPTER.why_not_suspendable(of)
    assert "\n" not in ADAPTER.why_not_suspendable(of)


def test_the_former_prefix_is_read() -> None:
    assert ADAPTER.pod_sets(job(annotations={"kube-queue/min-resources": "cpu: 1"}))


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_generated_resources(seed: int) -> None:
    rng = random.Random(seed)
    factors = {"": 1, "Ki": 1 << 10, "M": 10**6, "Gi": 1 << 30}
    milli = rng.randint(0, 64_000)
    number, unit = rng.randint(0, 999), rng.choice(sorted(factors))
    said: dict[str, Any] = {"cpu": f"{milli}m", "memory": f"{number}{unit}"}
    gpus = rng.randint(0, 8)
    if gpus:
        said["nvidia.com/gpu"] = rng.choice([gpus, str(gpus)])
    as_yaml = "\n".join(f"{key}: {value!r}" for key, value in said.items())
    text = rng.choice([json.dumps(said), as_yaml])
    want = {"cpu": milli, "memory": number * factors[unit], "nvidia.com/gpu": gpus}
    got = demand_of(ADAPTER.pod_sets(job(annotations={KEY: text})))
    assert {key: got.get(key, 0) for key in want} == want


POD = {"type": "Pod", "phase": "Running"}


@pytest.mark.parametrize(
    ("status", "empty", "running", "pods"),
    [
        pytest.param({}, True, False, 0, id="not reconciled"),
        pytest.param({"phase": "Running"}, True, True, 0, id="created suspended"),
        pytest.param({"phase": "Pending"}, True, False, 0, id="waits for another workflow"),
        pytest.param({"phase": "Running", "nodes": {"a": POD}}, False, True, 1, id="a pod runs"),
        pytest.param(
            {
                "phase": "Running",
                "nodes": {
                    "a": {"type": "DAG", "phase": "Running"},
                    "b": {"type": "Pod", "phase": "Pending"},
                    "c": {"type": "Pod", "phase": "Succeeded"},
                },
            },
            False,
            True,
            1,
            id="only pods count, and only active ones",
        ),
        pytest.param({"phase": "Running", "compressedNodes": "x"}, False, True, 0, id="large"),
        pytest.param(
            {"phase": "Running", "offloadNodeStatusVersion": "x"}, False, True, 0, id="larger"
        ),
        pytest.param({"phase": "Error"}, False, False, 0, id="ended before any node"),
    ],
)
def test_status(status: dict[str, Any], empty: bool, running: bool, pods: int) -> None:
    found = ADAPTER.status_of(job(status, suspend=True))
    assert (found.is_empty, found.running, found.pods) == (empty, running, pods)
    assert not found.suspended


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param("Succeeded", (True, "why"), id="ctl-59 Succeeded"),
        pytest.param("Failed", (False, "why"), id="ctl-59 Failed"),
        pytest.param("Error", (False, "why"), id="ctl-59 Error"),
        pytest.param("Running", None, id="ctl-59 Running"),
        pytest.param("Pending", None, id="Pending"),
        pytest.param("", None, id="not reconciled"),
    ],
)
def test_how_it_ended(phase: str, want: tuple[bool, str] | None) -> None:
    outcome = ADAPTER.status_of(job({"phase": phase, "message": "why"})).outcome
    assert (None if outcome is None else (outcome.succeeded, outcome.message)) == want


ENTRY = [{"name": "other", "priorityClassName": "low"}, {"name": "main"}]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, PrioritySource(), id="none"),
        pytest.param(
            {"priority": 5, "podPriorityClassName": "high"},
            PrioritySource(value=5),
            id="ctl-59 spec.priority wins",
        ),
        pytest.param(
            {"entrypoint": "other", "templates": ENTRY, "podPriorityClassName": "high"},
            PrioritySource("low"),
            id="ctl-59 else the entry template",
        ),
        pytest.param(
            {"entrypoint": "main", "templates": ENTRY, "podPriorityClassName": "high"},
            PrioritySource("high"),
            id="else that of all pods",
        ),
    ],
)
def test_where_the_priority_comes_from(spec: dict[str, Any], want: PrioritySource) -> None:
    assert ADAPTER.priority_of(job(**spec)) == want


MARK = {"name": "koord-queue-suspend", "suspend": {}}
WAITS = {"a": {"type": "Suspend", "phase": "Running"}}


@pytest.mark.parametrize(
    ("suspend", "status", "want"),
    [
        pytest.param(True, {}, "held", id="suspended"),
        pytest.param(False, {}, "starting", id="not suspended"),
        pytest.param(
            False,
            {"phase": "Running", "nodes": WAITS},
            "starting",
            id="in a suspend step",
        ),
        pytest.param(
            True, {"conditions": [{"type": "Enqueued", "status": "True"}]}, "held", id="a condition"
        ),
    ],
)
@pytest.mark.parametrize("templates", [[MARK], []], ids=["with upstream's template", "without"])
def test_its_state_follows_its_switch_alone(
    templates: list[dict[str, Any]], suspend: bool, status: dict[str, Any], want: str
) -> None:
    """[ctl-59] Upstream needs a template of a certain name, waits in it, and marks the status."""
    of = job(status, suspend=suspend, templates=templates)
    facts = read_facts(ADAPTER, of, held_by_annotation=False)
    assert judge_job(facts, NO_PODS, admitted=False, believed=False).state.value == want
    asks = ClusterContext(namespace_labels={"koord-queue/managed": "true"})
    found = classify_ownership(facts, asks, JobSettings(), has_unit=False, owners=NobodyAbove())
    assert (found.managed, facts.why_not_suspendable) == (True, "")


def test_patches() -> None:
    assert ADAPTER.release_patch(job(), {}) == {"spec": {"suspend": False}}
    stamps = {"default": PodStamp(labels={"l": "1"})}
    metadata = {"labels": {"l": "1"}}
    want = {"spec": {"suspend": False, "podMetadata": metadata}}
    assert ADAPTER.release_patch(job(), stamps) == want
    assert isinstance(ADAPTER, TakesTemplateUpdates)
    update = TemplateUpdate(
        annotations={"a": None}, node_selector={"zone": "z"}, tolerations=({"key": "k"},)
    )
    assert ADAPTER.update_patch(job(), {"default": update}) == {
        "spec": {
            "podMetadata": {"annotations": {"a": None}},
            "nodeSelector": {"zone": "z"},
            "tolerations": [{"key": "k"}],
        }
    }
    assert ADAPTER.update_patch(job(), {"default": TemplateUpdate()}) == {"spec": {}}
    assert ADAPTER.update_patch(job(), {}) == {}


@pytest.mark.parametrize(
    ("templates", "want"),
    [
        pytest.param([{"name": "main"}], "bot", id="for all pods"),
        pytest.param([], "bot", id="templates in other objects"),
        pytest.param(
            [{"name": "main"}, {"name": "b", "serviceAccountName": "own"}], "bot", id="except one"
        ),
        pytest.param([{"name": "main", "serviceAccountName": "own"}], "", id="for none"),
    ],
)
def test_pods_run_under_the_account_of_the_workflow(templates: list[Any], want: str) -> None:
    of = job(annotations={KEY: "cpu: 1"}, serviceAccountName="bot", templates=templates)
    (found,) = ADAPTER.pod_sets(of)
    assert found.template.spec.account == want


def test_fields_of_all_pods_are_in_the_template() -> None:
    of = job(
        podMetadata={"labels": {"l": "1"}, "annotations": {"a": "2"}},
        nodeSelector={"zone": "z"},
        tolerations=[{"key": "k"}],
    )
    (found,) = ADAPTER.pod_sets(of)
    template = found.template
    assert (template.metadata.labels, template.metadata.annotations) == ({"l": "1"}, {"a": "2"})
    assert template.spec.node_selector == {"zone": "z"}
    assert template.spec.tolerations == ({"key": "k"},)


def test_the_sample() -> None:
    body = sample("workflow")
    assert troubles_of(body, "workflows") == []
    assert shown_sets(ADAPTER, body) == {"default": (1, {"cpu": "4", "memory": "8Gi"})}


def test_a_text_is_parsed_once() -> None:
    first, _ = read_resources("cpu: 123456")
    again, _ = read_resources("cpu: 123456")
    assert first is again


def test_a_text_that_is_too_long_is_not_remembered() -> None:
    before = _parse_resources.cache_info()
    read_resources("x" * (MAX_RESOURCES_CHARS + 1))
    assert _parse_resources.cache_info() == before


def test_its_recorded_life() -> None:
    # Its pods ended while it was suspended, and it was resumed before the time of a silent operator
    # was up: so it was not held a second time.
    assert told_states("workflow-abcde") == [
        *("held", "released", "starting", "running", "stopping"),
        *("starting", "running", "starting", "finished", "gone"),
    ]
    assert demands_of("workflow-abcde") == [{}]
