"""The pod of a dry run, and what its response means for a template, in tables."""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.decision.job_ownership import ClusterContext, quota_of_job
from queue_controllers.decision.pod_admission import (
    NOTHING_READ,
    AdmissionObjects,
    overlay_body,
)
from queue_controllers.decision.pod_stamps import build_stamps
from queue_controllers.decision.previewed_pod import (
    DryRun,
    PreviewResult,
    apply_results,
    build_dry_run,
    can_be_previewed,
    read_error,
    read_response,
)
from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodStamp
from queue_controllers.jobframework.pod_template import (
    ScheduledPod,
    ScheduledPodTemplate,
    template_body,
)
from shared_api.objects.limit_range import LimitRange
from shared_api.objects.meta import OwnerReference, Uid
from shared_api.pod_requests import pod_requests
from shared_api.well_known_labels import QUOTA_NAME, RELATED_QUEUE_UNIT, STAMPED_QUOTA
from tests.job_situations import facts, unit

Json = dict[str, Any]

OWNER: Final = OwnerReference(
    api_version="batch/v1", kind="Job", name="main", uid=Uid("uid-1"), controller=True
)
STAMP: Final = PodStamp(
    labels={QUOTA_NAME: "gold"},
    annotations={RELATED_QUEUE_UNIT: "team/main", STAMPED_QUOTA: "gold"},
)
NOW_FULL: Final = 'pods "x" is forbidden: exceeded quota: q, requested: cpu=2, used: cpu=1'


def template(**container: Any) -> Json:
    """Return a whole template of one container."""
    full = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}, **container}
    return {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [full]}}


def asked(body: Json | None = None, owner: OwnerReference = OWNER) -> DryRun:
    return build_dry_run(template() if body is None else body, STAMP, owner, "team")


def made(dry_run: DryRun, labels: Json | None = None, **spec: Any) -> PreviewResult:
    """Return the response that creates the requested pod, with changes."""
    pod = copy.deepcopy(dry_run.body)
    pod["metadata"]["labels"] |= labels or {}
    pod["spec"] |= spec
    return read_response(msgspec.convert(pod, ScheduledPod), dry_run)


def job(body: Json | None = None) -> JobFacts:
    reduced = msgspec.convert(template() if body is None else body, ScheduledPodTemplate)
    return facts(pod_sets=(JobPodSet(name="main", count=2, template=reduced),))


def admitted(answer: PreviewResult, objects: AdmissionObjects = NOTHING_READ) -> JobFacts:
    return apply_results(job(), objects, {"main": answer})


def cpu_of(of: JobFacts) -> Json:
    return dict(pod_requests(of.pod_sets[0].template.spec))


# --- the request ----------------------------------------------------------------------------------


def test_the_pod_is_that_of_the_release() -> None:
    metadata = asked().body["metadata"]
    assert metadata["labels"] == {"app": "x", QUOTA_NAME: "gold"}
    assert metadata["annotations"] == {RELATED_QUEUE_UNIT: "team/main", STAMPED_QUOTA: "gold"}
    assert metadata["namespace"] == "team"
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "main",
            "uid": "uid-1",
            "controller": True,
        }
    ]


SAME: Final = {
    "command, arguments and environment": template(
        command=["a"], args=["b"], env=[{"name": "X", "value": "1"}], envFrom=[{}]
    ),
    "labels of the Job controller": {
        **template(),
        "metadata": {"labels": {"app": "x", "batch.kubernetes.io/job-name": "other"}},
    },
}
OTHER: Final = {
    "an image": template(image="other"),
    "a security context": template(securityContext={"privileged": True}),
    "a label": {**template(), "metadata": {"labels": {"app": "y"}}},
}


@pytest.mark.parametrize("body", SAME.values(), ids=SAME.keys())
def test_templates_with_irrelevant_differences_are_one_request(body: Json) -> None:
    assert asked(body).key == asked().key
    assert not {"command", "args", "env", "envFrom"} & set(
        asked(body).body["spec"]["containers"][0]
    )


@pytest.mark.parametrize("body", OTHER.values(), ids=OTHER.keys())
def test_templates_with_relevant_differences_are_other_requests(body: Json) -> None:
    assert asked(body).key != asked().key


def test_the_job_does_not_matter_but_its_kind_and_namespace_do() -> None:
    other = msgspec.structs.replace(OWNER, name="other", uid=Uid("2"))
    assert asked(owner=other).key == asked().key
    assert asked(owner=msgspec.structs.replace(OWNER, kind="TFJob")).key != asked().key
    elsewhere = build_dry_run(template(), STAMP, OWNER, "elsewhere")
    assert elsewhere.key != asked().key


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"is_sum": True}, id="an Argo workflow"),
        pytest.param({"has_limits": False}, id="Spark"),
        pytest.param({"has_template": False}, id="a template of the operator's own"),
    ],
)
def test_kinds_whose_pods_have_no_template_are_not_previewed(changes: Json) -> None:
    pod_set = job().pod_sets[0]
    assert can_be_previewed(pod_set)
    assert not can_be_previewed(msgspec.structs.replace(pod_set, **changes))


# --- the response ---------------------------------------------------------------------------------


def container(requests: Json, name: str = "c", **more: Any) -> Json:
    return {"name": name, "image": "i", "resources": {"requests": requests, **more}}


CHANGES: Final = {
    "another resource": (
        {"containers": [container({"kubernetes.io/batch-cpu": "1000"})]},
        {"kubernetes.io/batch-cpu": 1000},
        "requests kubernetes.io/batch-cpu 1000, no cpu of container c",
    ),
    "a sidecar": (
        {"containers": [container({"cpu": "1"}), container({"cpu": "500m"}, name="mesh")]},
        {"cpu": 1500},
        "container mesh with requests cpu 500m",
    ),
    "an overhead": ({"overhead": {"cpu": "250m"}}, {"cpu": 1250}, "overhead cpu 250m"),
    "requests of the whole pod": (
        {"resources": {"requests": {"cpu": "3"}}},
        {"cpu": 3000},
        "requests of the pod cpu 3",
    ),
    "a node selector": ({"nodeSelector": {"a": "b"}}, {"cpu": 1000}, "node selector a=b"),
    "a toleration": ({"tolerations": [{"key": "k"}]}, {"cpu": 1000}, "1 more tolerations"),
    "another scheduler": (
        {"schedulerName": "koord-scheduler"},
        {"cpu": 1000},
        "scheduler koord-scheduler",
    ),
}


@pytest.mark.parametrize(("spec", "want", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_changes_by_admission_count_and_are_reported(spec: Json, want: Json, words: str) -> None:
    got = admitted(made(asked(), **spec))
    assert cpu_of(got) == want
    assert got.template_differences == f"{words} (the API server's answer to a dry run)"
    assert got.pod_sets[0].written == job().pod_sets[0].template


def test_defaults_of_every_pod_are_no_difference() -> None:
    usual: Json = {
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "tolerationSeconds": 300}],
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "preemptionPolicy": "PreemptLowerPriority",
        "volumes": [{"name": "kube-api-access-x7"}],
        "containers": [container({"cpu": "1000m"})],
    }
    assert admitted(made(asked(), **usual)) == job()


def test_a_watched_change_is_reported_with_its_objects_name() -> None:
    item = {"type": "Container", "defaultRequest": {"memory": "1Gi"}}
    body = {"metadata": {"name": "r"}, "spec": {"limits": [item]}}
    objects = AdmissionObjects(limit_ranges=(msgspec.convert(body, LimitRange),))
    answer = made(asked(), containers=[container({"cpu": "1", "memory": "1024Mi"})])
    reported = admitted(answer, objects).template_differences
    assert reported == "requests memory 1Gi of container c (LimitRange r)"


def test_the_response_precedes_the_watched_objects() -> None:
    item = {"type": "Container", "max": {"cpu": "500m"}}
    body = {"metadata": {"name": "r"}, "spec": {"limits": [item]}}
    objects = AdmissionObjects(limit_ranges=(msgspec.convert(body, LimitRange),))
    got = admitted(made(asked(), containers=[container({"cpu": "250m"})]), objects)
    assert (got.pods_refused, cpu_of(got)) == ("", {"cpu": 250})


def test_a_job_is_charged_by_the_label_of_the_response() -> None:
    got = admitted(made(asked(), labels={QUOTA_NAME: "theirs"}))
    got = msgspec.structs.replace(got, stamped_quota="gold")
    assert quota_of_job(got, ClusterContext()) == "theirs"
    assert f"label {QUOTA_NAME}=theirs" in got.template_differences
    assert build_stamps(got, unit(), "theirs")["main"].labels == {QUOTA_NAME: "gold"}


def test_a_whole_template_in_a_unit_has_its_pods_requests() -> None:
    whole = template(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, command=["x"])
    reduced = msgspec.convert(whole, ScheduledPodTemplate)
    of = facts(pod_sets=(JobPodSet(name="main", count=2, template=reduced),))
    amounts = {"kubernetes.io/batch-cpu": "1000"}
    containers = [container(amounts), container({"cpu": "1"}, name="mesh")]
    answer = made(asked(whole), labels={QUOTA_NAME: "theirs"}, containers=containers)
    got = apply_results(of, NOTHING_READ, {"main": answer}).pod_sets[0].template
    reported = overlay_body(whole, template_body(got))
    assert reported["metadata"]["labels"] == {"app": "x", QUOTA_NAME: "theirs"}
    own, mesh = reported["spec"]["containers"]
    assert own["command"] == ["x"]
    assert own["resources"] == {"requests": amounts}
    assert (mesh["name"], mesh["resources"]) == ("mesh", {"requests": {"cpu": "1"}})


# --- refusals -------------------------------------------------------------------------------------


def test_a_refusal_holds_the_job_with_its_message() -> None:
    dry_run = asked()
    words = f'pods "{dry_run.name}" is forbidden: policy p denied request: no'
    answer = read_error(422, words, dry_run)
    assert answer is not None
    assert admitted(answer).pods_refused == "pods is forbidden: policy p denied request: no"


MOMENTS: Final = {
    "a full ResourceQuota": (403, NOW_FULL, "a ResourceQuota has no room"),
    "a new namespace": (
        403,
        'error looking up service account team/default: serviceaccount "default" not found',
        "no default ServiceAccount",
    ),
    "no right": (
        403,
        'pods is forbidden: User "u" cannot create resource "pods" in API group ""',
        "no right to create pods",
    ),
    "a webhook without dry run": (
        400,
        'admission webhook "w" does not support dry run',
        "does not take part",
    ),
    "a namespace that has gone": (404, 'namespaces "team" not found', "is not there"),
}


@pytest.mark.parametrize(("status", "message", "want"), MOMENTS.values(), ids=MOMENTS.keys())
def test_errors_unrelated_to_the_template_refuse_nothing(
    status: int, message: str, want: str
) -> None:
    answer = read_error(status, message, asked())
    assert answer is not None
    got = admitted(answer)
    assert got.pods_refused == ""
    assert want in got.template_differences
    assert cpu_of(got) == {"cpu": 1000}


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_failed_webhook_call_is_no_response(status: int) -> None:
    assert read_error(status, "failed calling webhook", asked()) is None
