"""The requests of a reservation, and the pods that may use it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.jobframework.generic_job import JobFacts, JobPodSet, PodOwner
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import TemplateUpdate
from queue_controllers.reservations.reservation_builder import (
    MAX_NAME_CHARS,
    build_reservation,
    plan_reservations,
    with_updates,
)
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.objects.meta import OwnerReference, Uid
from shared_api.objects.queue_unit import Admission, QueueUnit
from tests.job_situations import facts
from tests.queue_controllers.reservations.reservation_kit import strict

Json = dict[str, Any]

OWNER = PodOwner(
    controller=OwnerReference(api_version="batch/v1", kind="Job", name="main", uid=Uid("uid-1"))
)
POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
GANG = "gang.scheduling.koordinator.sh"


def job_of(
    labels: Json | None = None, annotations: Json | None = None, count: int = 2, **spec: Any
) -> JobFacts:
    """Return a job with these fields in its template, as in the API."""
    body = {"metadata": {"labels": labels or {}, "annotations": annotations or {}}, "spec": spec}
    template = msgspec.convert(body, ScheduledPodTemplate)
    return facts(pod_sets=(JobPodSet(name="main", count=count, template=template),))


def built(job: JobFacts, unit: QueueUnit | None = None, **more: Any) -> Json:
    """Return the first reservation of a job."""
    unit = unit or strict()
    more = {"settings": ReservationSettings(), **more}
    owner = more.pop("owner", OWNER)
    return build_reservation(plan_reservations(job, unit)[0], job, unit, owner, **more)


def template_of(job: JobFacts, unit: QueueUnit | None = None) -> Any:
    return built(job, unit)["spec"]["template"]


def names(job: JobFacts, unit: QueueUnit) -> list[str]:
    return [each.name for each in plan_reservations(job, unit)]


def with_meta(unit: QueueUnit, **changes: Any) -> QueueUnit:
    return msgspec.structs.replace(unit, metadata=msgspec.structs.replace(unit.metadata, **changes))


# --- names ------------------------------------------------------------------------------------


def test_a_name_has_namespace_unit_pod_set_and_number() -> None:
    first, second = names(job_of(), strict())
    assert first.startswith("team-main-main-0-")
    assert second.startswith("team-main-main-1-")


def test_the_same_attempt_has_the_same_names_and_another_has_others() -> None:
    job, unit = job_of(), strict()
    assert names(job, unit) == names(job, unit)
    others = (strict(attempts=2), with_meta(unit, uid=Uid("qu-2")))
    for other in others:
        assert not set(names(job, unit)) & set(names(job, other))


def test_names_of_two_namespaces_never_collide() -> None:
    one = with_meta(strict(), namespace="a-b", name="c", uid=Uid("1"))
    two = with_meta(strict(), namespace="a", name="b-c", uid=Uid("2"))
    assert not set(names(job_of(), one)) & set(names(job_of(), two))


def test_long_names_are_cut_and_stay_different() -> None:
    unit = with_meta(strict(), namespace="n" * 63, name="x" * 253)
    got = names(job_of(), unit)
    assert len(set(got)) == 2
    assert all(len(each) <= MAX_NAME_CHARS and each.isascii() for each in got)


def test_one_for_each_pod_of_each_set_that_was_granted() -> None:
    template = ScheduledPodTemplate()
    sets = tuple(
        JobPodSet(name=name, count=count, template=template)
        for name, count in (("main", 2), ("worker", 3), ("none", 0))
    )
    got = plan_reservations(facts(pod_sets=sets), strict(admissions=()))
    assert [each.pod_set for each in got] == ["main"] * 2 + ["worker"] * 3
    assert {each.total for each in got} == {5}


# --- the object -------------------------------------------------------------------------------


def test_the_object() -> None:
    unit = strict(attempts=3)
    got = built(job_of(count=2), unit)
    assert (got["apiVersion"], got["kind"]) == ("scheduling.koordinator.sh/v1alpha1", "Reservation")
    assert got["metadata"]["labels"] == {
        "koord-queue/queueunit-uid": "qu-1",
        "koord-queue/attempt": "3",
        "koord-queue/related-podset-name": "main",
        "reserved-job-namespace": "team",
        "reserved-job-name": "main",
        "total-reservations": "2",
    }
    assert got["metadata"]["annotations"] == {"koord-queue/related-queueunit": "team/main"}
    assert (got["spec"]["allocateOnce"], got["spec"]["ttl"]) == (True, "1800s")


def test_which_pods_may_use_it() -> None:
    by_controller = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "main",
        "uid": "uid-1",
        "controller": True,
        "namespace": "team",
    }
    assert built(job_of())["spec"]["owners"] == [{"controller": by_controller}]
    worker = msgspec.structs.replace(OWNER, labels={"role": "worker"})
    assert built(job_of(), owner=worker)["spec"]["owners"] == [
        {"controller": by_controller, "labelSelector": {"matchLabels": {"role": "worker"}}}
    ]


def test_it_is_in_the_jobs_namespace_with_the_labels_of_its_pods() -> None:
    labels = {"job-name": "main", "app": "x"}  # constraints between pods use them
    assert template_of(job_of(labels))["metadata"] == {"namespace": "team", "labels": labels}


def test_bad_nodes_are_avoided() -> None:
    got = built(job_of(), bad_nodes=("bad",))["spec"]["template"]["spec"]
    assert "bad" in str(got["affinity"])


# --- the template -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({"requests": {"cpu": "1"}}, {"cpu": "1"}, id="it has requests"),
        pytest.param({"limits": {"cpu": "2"}}, {"cpu": "2"}, id="only limits"),
        pytest.param(
            {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": 8}},
            {"cpu": "1", "nvidia.com/gpu": 8},
            id="limits without requests",
        ),
    ],
)
def test_a_missing_request_is_that_of_its_limit(resources: Json, want: Json) -> None:
    container = {"name": "c", "resources": resources}
    spec = template_of(job_of(containers=[container], initContainers=[container]))["spec"]
    assert spec["containers"][0]["resources"]["requests"] == want
    assert spec["initContainers"][0]["resources"]["requests"] == want


def test_a_pods_own_limits_count_where_no_container_has_requests() -> None:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    own = {"limits": {"cpu": "4", "memory": "2Gi"}}
    spec = template_of(job_of(containers=[container], resources=own))["spec"]
    assert spec["resources"]["requests"] == {"memory": "2Gi"}


def test_fields_that_place_a_pod_are_copied() -> None:
    said: Json = {
        "nodeSelector": {"zone": "a"},
        "affinity": {"podAntiAffinity": {"x": 1}},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "priorityClassName": "high",
        "schedulerName": "koord-scheduler",
    }
    spec = msgspec.json.decode(msgspec.json.encode(template_of(job_of(**said))["spec"]))
    assert {key: spec[key] for key in said} == said


def test_fields_that_exist_only_with_a_pod_are_left_out() -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    spec = template_of(
        job_of(
            schedulingGates=[{"name": "hold"}],
            volumes=[claim, {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}],
            resourceClaims=[
                {"name": "mine", "resourceClaimTemplateName": "t"},
                {"name": "shared", "resourceClaimName": "c"},
            ],
        )
    )["spec"]
    assert "schedulingGates" not in spec
    assert spec["volumes"] == [claim]
    assert spec["resourceClaims"] == [{"name": "shared", "resourceClaimName": "c"}]


def test_nodes_are_reserved_for_the_pods_after_the_release() -> None:
    spot = {"key": "spot", "operator": "Exists"}
    update = TemplateUpdate(
        labels={"team": "t", "old": None},
        annotations={"note": "n"},
        node_selector={"zone": "a"},
        tolerations=(spot,),
    )
    job = job_of({"app": "x", "old": "y"}, nodeSelector={"disk": "ssd"})
    got = template_of(with_updates(job, {"main": update}))
    assert got["metadata"]["labels"] == {"app": "x", "team": "t"}
    assert got["metadata"]["annotations"] == {"note": "n"}
    assert got["spec"]["nodeSelector"] == {"disk": "ssd", "zone": "a"}
    assert list(got["spec"]["tolerations"]) == [spot]
    assert with_updates(job, {}) == job


# --- gangs ------------------------------------------------------------------------------------


def test_gang_labels_get_a_suffix() -> None:
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "scheduling.x-k8s.io/pod-group": "g",
        "network-topology-job-name": "g",
        "app": "g",
    }
    got = template_of(job_of(labels), strict(attempts=2))["metadata"]["labels"]
    assert got == {key: "g" if key == "app" else "g-reserve-2" for key in labels}


def test_pods_of_a_pod_group_describe_their_gang_by_annotations() -> None:
    metadata = template_of(job_of({POD_GROUP: "g"}, count=2))["metadata"]
    assert "labels" not in metadata
    assert metadata["annotations"] == {f"{GANG}/name": "g-reserve-1", f"{GANG}/min-available": "2"}


def test_a_gang_that_annotations_describe_is_renamed_and_alone() -> None:
    said = {f"{GANG}/name": "g", f"{GANG}/min-available": "4", f"{GANG}/groups": '["team/g"]'}
    assert template_of(job_of(annotations=said))["metadata"]["annotations"] == {
        f"{GANG}/name": "g-reserve-1",
        f"{GANG}/min-available": "4",
    }


def test_a_long_gang_name_is_cut_and_stays_a_label() -> None:
    key = "scheduling.x-k8s.io/pod-group"
    got = {
        template_of(job_of({key: "g" * 60 + end}))["metadata"]["labels"][key] for end in ("a", "b")
    }
    assert len(got) == 2
    assert all(len(each) <= 63 and each.endswith("-reserve-1") for each in got)


def test_admissions_without_pods_reserve_nothing() -> None:
    assert names(job_of(), strict(admissions=(Admission(name="main", replicas=0),))) == []
