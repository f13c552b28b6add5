"""Declared kinds of jobs: the values of their paths, and errors in a declaration."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
import yaml

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extensions.declared_kind import (
    DeclarationError,
    DeclaredAdapter,
    DeclaredJob,
    DeclaredKind,
)
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    Outcome,
    PodStamp,
    PrioritySource,
    StatusFacts,
)
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.pod_requests import pod_requests
from shared_api.testing.object_builders import pod_spec
from tests.queue_controllers.extensions.generated_pods import cpu_of_pod, random_pod_spec
from tests.sample_jobs import declared_on_page

WIDGET = """
apiVersion: example.com/v1
kind: Widget
plural: widgets
suspend: .spec.policy.suspend
podSets:
  - {name: leader, template: .spec.leader.template}
  - {name: worker, count: .spec.workers, template: '.spec.groups[0].template'}
running: {path: .status.phase, values: [Running]}
succeeded: {path: '.status.conditions[?(@.type=="Done")].status', values: [True]}
failed: {path: .status.phase, values: [Failed, Error]}
suspended: {path: .status.phase, values: [Suspended]}
message: .status.reason
priorityClass: .spec.priorityClassName
podLabel: example.com/widget
podSetLabel: example.com/role
"""


def declared(text: str = WIDGET, **changes: Any) -> DeclaredAdapter:
    body = {**yaml.safe_load(text), **changes}
    kept = {key: value for key, value in body.items() if value is not None}
    return DeclaredAdapter(msgspec.convert(kept, DeclaredKind))


def template(cpu: str = "1", **spec: Any) -> dict[str, Any]:
    return {"spec": pod_spec({"cpu": cpu}, **spec)}


def job(status: dict[str, Any] | None = None, **spec: Any) -> DeclaredJob:
    said = {"leader": {"template": template("2")}, "groups": [{"template": template()}], **spec}
    kept = {key: value for key, value in said.items() if value is not None}
    body = {"metadata": {"name": "main"}, "spec": kept, "status": status or {}}
    return msgspec.convert(body, DeclaredJob)


ADAPTER: GenericJob[DeclaredJob] = declared()


def test_names() -> None:
    kind = declared().kind
    assert (kind.key, kind.api_version, kind.kind) == ("widget", "example.com/v1", "Widget")
    assert (kind.plural, kind.name_suffix, kind.has_suspend_field) == ("widgets", "widget-qu", True)
    other = declared(key="w", nameSuffix="wid", suspend=None).kind
    assert (other.key, other.name_suffix, other.has_suspend_field) == ("w", "wid", False)


@pytest.mark.parametrize(
    ("of", "want"),
    [
        pytest.param(job(policy={"suspend": True}), True, id="on"),
        pytest.param(job(policy={"suspend": False}), False, id="off"),
        pytest.param(job(), False, id="not said"),
    ],
)
def test_the_switch(of: DeclaredJob, want: bool) -> None:
    assert ADAPTER.is_suspended(of) is want
    assert not declared(suspend=None).is_suspended(of)


def test_pod_sets_are_in_the_order_of_the_declaration() -> None:
    sets = ADAPTER.pod_sets(job(workers=3))
    assert [(each.name, each.count) for each in sets] == [("leader", 1), ("worker", 3)]
    assert [pod_requests(each.template.spec) for each in sets] == [{"cpu": 2000}, {"cpu": 1000}]
    assert [each.count for each in ADAPTER.pod_sets(job())] == [1, 1]


@pytest.mark.parametrize(
    ("of", "why"),
    [
        pytest.param(job(workers="3"), ".spec.workers: '3' is no number of pods", id="a text"),
        pytest.param(job(workers=-1), ".spec.workers: -1 is no number of pods", id="negative"),
        pytest.param(job(workers=True), ".spec.workers: True is no number of pods", id="a switch"),
        pytest.param(
            job(leader=None), ".spec.leader.template: there is no pod template", id="no template"
        ),
        pytest.param(
            job(leader={"template": {"spec": {"containers": 7}}}),
            ".spec.leader.template: Expected `array`, got `int`",
            id="no pod template",
        ),
    ],
)
def test_unreadable_fields_are_reported_and_request_nothing(of: DeclaredJob, why: str) -> None:
    assert ADAPTER.why_not_suspendable(of).startswith(why)
    assert ADAPTER.pod_sets(of) == ()


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_any_object(seed: int) -> None:
    rng = random.Random(seed)
    leader, worker, workers = random_pod_spec(rng), random_pod_spec(rng), rng.randint(0, 20)
    of = job(
        leader={"template": {"spec": leader}},
        groups=[{"template": {"spec": worker}}],
        workers=workers,
    )
    want = cpu_of_pod(leader) + workers * cpu_of_pod(worker)
    assert demand_of(ADAPTER.pod_sets(of)) == {"cpu": want}


def test_a_readable_job_can_be_held() -> None:
    assert ADAPTER.why_not_suspendable(job(workers=0)) == ""


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, StatusFacts(is_empty=True), id="nothing said"),
        pytest.param({"phase": "Running"}, StatusFacts(running=True), id="running"),
        pytest.param({"phase": "Suspended"}, StatusFacts(suspended=True), id="suspended"),
        pytest.param(
            {"conditions": [{"type": "Done", "status": "True"}], "phase": "Running"},
            StatusFacts(running=True, outcome=Outcome(succeeded=True)),
            id="succeeded",
        ),
        pytest.param(
            {"conditions": [{"type": "Done", "status": "False"}]}, StatusFacts(), id="not yet"
        ),
        pytest.param(
            {"phase": "Error", "reason": "out of luck"},
            StatusFacts(outcome=Outcome(succeeded=False, message="out of luck")),
            id="failed",
        ),
    ],
)
def test_status(status: dict[str, Any], want: StatusFacts) -> None:
    assert ADAPTER.status_of(job(status)) == want


def test_without_a_declared_running_the_pods_decide() -> None:
    assert declared(running=None).status_of(job({"phase": "Busy"})).running


def test_priority_comes_from_the_declared_field_or_the_first_template() -> None:
    assert ADAPTER.priority_of(job(priorityClassName="high")) == PrioritySource("high")
    low = job(leader={"template": template(priorityClassName="low", priority=-1)})
    assert ADAPTER.priority_of(low) == PrioritySource("low", -1)


def test_patches() -> None:
    stamp = PodStamp(labels={"quota": "gold"}, annotations={"unit": "team/main"})
    stamps = {"leader": stamp, "worker": stamp}
    assert ADAPTER.suspend_patch(job()) == {"spec": {"policy": {"suspend": True}}}
    assert ADAPTER.release_patch(job(), {}) == {"spec": {"policy": {"suspend": False}}}
    said = {"metadata": {"labels": stamp.labels, "annotations": stamp.annotations}}
    assert ADAPTER.release_patch(job(), stamps) == {
        # The other template is in a list, which a merge patch would replace.
        "spec": {"policy": {"suspend": False}, "leader": {"template": said}}
    }
    without = declared(suspend=None)
    assert (without.suspend_patch(job()), without.release_patch(job(), {})) == ({}, {})


def test_pods_are_found_by_the_declared_labels() -> None:
    adapter = declared()
    labels = {"example.com/widget": "main", "example.com/role": "worker"}
    pod = Pod(metadata=ObjectMeta(labels=labels))
    assert adapter.pod_labels == ("example.com/widget", "example.com/role")
    assert adapter.job_name_of(labels) == "main"
    assert adapter.pod_set_of(pod) == "worker"
    bare = declared(podLabel=None, podSetLabel=None)
    assert (bare.pod_labels, bare.job_name_of(labels), bare.pod_set_of(pod)) == ((), "", "")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"suspend": ".spec.a["}, "suspend: '.spec.a['", id="no path"),
        pytest.param({"suspend": ".spec.a[0].b"}, "in a list cannot be set", id="in a list"),
        pytest.param(
            {"suspend": ".metadata.labels.x"}, "begin with .spec or .status", id="elsewhere"
        ),
        pytest.param(
            {
                "podSets": [
                    {"name": "A", "template": ".spec.a"},
                    {"name": "a", "template": ".spec.b"},
                ]
            },
            "podSets[1].name: 'a' is there twice",
            id="a duplicate name",
        ),
        pytest.param(
            {"podSets": [{"name": "a", "count": -1, "template": ".spec.a"}]},
            "podSets[0].count: -1 is negative",
            id="a negative count",
        ),
        pytest.param(
            {"podSets": [{"name": "a", "count": "x y", "template": ".spec.a"}]},
            "podSets[0].count: 'x y'",
            id="a count that is not a path",
        ),
        pytest.param(
            {"failed": {"path": "status phase", "values": ["x"]}}, "failed.path:", id="a test"
        ),
    ],
)
def test_errors_in_a_declaration_are_reported(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        declared(**changes)
    assert says in str(raised.value)


def test_the_mpi_jobs_of_alibabas_operator_are_read_as_the_page_declares_them() -> None:
    body = declared_on_page("v1alpha1", "MPIJob")
    adapter = DeclaredAdapter(msgspec.convert(body, DeclaredKind))
    assert not adapter.kind.has_suspend_field, "the annotation holds it"
    assert (adapter.kind.key, adapter.kind.name_suffix) == ("mpijobv1alpha1", "mpi-qu")
    spec = {"replicas": 3, "template": template()}
    for phase, running, outcome in (
        ("Active", True, None),
        ("Succeeded", False, Outcome(succeeded=True)),
        ("Failed", False, Outcome(succeeded=False)),
    ):
        mpi = msgspec.convert({"spec": spec, "status": {"launcherStatus": phase}}, DeclaredJob)
        assert [(s.name, s.count) for s in adapter.pod_sets(mpi)] == [
            ("launcher", 1),
            ("worker", 3),
        ]
        status = adapter.status_of(mpi)
        assert (status.running, status.outcome) == (running, outcome)
