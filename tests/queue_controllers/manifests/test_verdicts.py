"""What is said of a manifest is what the controllers make of its objects."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
import pytest
import yaml

from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.manifests.verdicts import (
    CLASSES_NOT_LOOKED_UP,
    ClusterFacts,
    Manifest,
    Verdict,
)
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.priority_class import PriorityClass
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_controllers.controllers_world import World
from tests.sample_jobs import SERVICE_ACCOUNTS, crd, sample

Json = dict[str, Any]

CRD_FILES: Final = {
    "job": (),
    "pod": (),
    "statefulset": (),
    "podgroup": ("podgroups",),
    "mpijob": ("mpijobs-v2beta1",),
    "mpijobv1": ("mpijobs-v1",),
    "trainjob": ("trainjobs", "jobsets"),
}
"""Kinds whose CRD has another name than the plural, by extension."""

PLAYED: Final = ("statefulset", "leaderworkerset")
"""Kinds whose operator makes pods, of which the unit is built."""

JOB: Final = """
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  namespace: team
  labels: {quota.scheduling.koordinator.sh/name: gold}
  annotations: {scheduling.x-k8s.io/max-exec-time-seconds: "600", scheduling.x-k8s.io/priority: "7"}
spec:
  suspend: true
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {requests: {cpu: 1, memory: 1Gi}}}]
"""


class Known:
    """What is known of the cluster, for a manifest."""

    def __init__(self, *, units: dict[str, QueueUnit] | None = None) -> None:
        self.units = units or {}
        self.classes: tuple[PriorityClass, ...] | None = None

    def facts(self) -> ClusterFacts:
        return ClusterFacts(
            wall=VirtualClock().now(),
            namespace=lambda name: (
                Namespace(metadata=ObjectMeta(name=name))
                if name in {"team", "kube-system"}
                else None
            ),
            unit=self.units.get,
            priority_classes=self.classes,
        )


def judged(manifest: str | Json, known: Known | None = None) -> list[Verdict]:
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    found = Manifest(text.encode(), is_json=not isinstance(manifest, str), namespace="team")
    return list(found.judge((known or Known()).facts()))


def judged_one(manifest: str | Json, known: Known | None = None) -> Verdict:
    (one,) = judged(manifest, known)
    return one


def units_of(verdicts: list[Verdict]) -> list[Json]:
    return [each.unit for each in verdicts if each.unit is not None]


# --- every kind -----------------------------------------------------------------------------------


def body_of(key: str) -> Json:
    body = yaml.safe_load(JOB) if key == "job" else sample(key)
    if body["kind"] != "List":
        body["metadata"] |= {"namespace": "team"}
    return dict(body)


def play_operator(world: World, made: Json) -> None:
    """Make the first pods of a StatefulSet, or of each group of a LeaderWorkerSet."""
    spec, name = made["spec"], made["metadata"]["name"]
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "controller": True}
    owner["uid"] = made["metadata"]["uid"]
    groups = spec.get("leaderWorkerTemplate", {})
    template = groups.get("leaderTemplate") or spec.get("template")
    for index in range(spec["replicas"] if groups else 1):
        meta = json.loads(json.dumps(template.get("metadata", {})))
        meta |= {"name": f"{name}-{index}", "namespace": "team", "ownerReferences": [owner]}
        if groups:
            marks = {"name": name, "group-index": str(index), "worker-index": "0"}
            prefix = "leaderworkerset.sigs.k8s.io/"
            meta["labels"] |= {prefix + key: value for key, value in marks.items()}
            meta["annotations"] = {prefix + "size": str(groups["size"])}
        world.direct.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
        )


def really_made(key: str, body: Json) -> tuple[list[Json], list[Json]]:
    """Create objects over the fake API server; return them, and the units that follow."""
    world = World()
    plural = next(each.kind.plural for each in EXTENSIONS if each.kind.key == key)
    for name in CRD_FILES.get(key, (plural,)):
        world.direct.create(crd(name))
    world.priority_class("high")
    for name in SERVICE_ACCOUNTS:
        world.service_account(name)
    world.start(f"--enabled-extensions={key}")
    created = []
    for each in body["items"] if body["kind"] == "List" else [body]:
        created.append(world.direct.create(each))
        if key in PLAYED:
            play_operator(world, created[-1])
    world.settle(6.0)
    return created, world.direct.list("queueunits")


def comparable(unit: Json) -> Json:
    """Return what does not depend on when the unit was made, and on the uid of its job."""
    meta, spec = unit["metadata"], json.loads(json.dumps(unit["spec"]))
    spec["consumerRef"].pop("uid", None)
    spec.setdefault("priority", 0)  # as its CRD does
    marks = dict(meta.get("annotations", {}))
    marks.pop("koord-queue/job-created-at")
    owners = [each["name"] for each in meta.get("ownerReferences", ())]
    names = (meta["name"], meta["namespace"])
    return {"names": names, "owners": owners, "labels": meta.get("labels", {})} | {
        "annotations": marks,
        "spec": spec,
    }


def without_pod_defaults(comparable: Json) -> Json:
    """Return it without what the API server adds to pods that an operator makes of a template."""
    comparable["annotations"].pop("koord-queue/pod-sets-hash")
    for each in comparable["spec"]["podSet"]:
        for field in ("schedulerName", "restartPolicy", "preemptionPolicy"):
            each["template"]["spec"].pop(field, None)
    return comparable


def by_name(units: list[Json]) -> list[Json]:
    return sorted(units, key=lambda each: str(each["metadata"]["name"]))


WITHOUT_OPERATOR: Final = ("trainjob",)
"""Kinds whose pods an operator describes in an object of another kind."""

KEYS: Final = [each.kind.key for each in EXTENSIONS]


@pytest.mark.parametrize("key", [key for key in KEYS if key not in WITHOUT_OPERATOR])
def test_the_unit_of_every_kind_is_the_one_that_a_reconcile_creates(key: str) -> None:
    created, units = really_made(key, body_of(key))
    known = Known()
    known.classes = (PriorityClass(metadata=ObjectMeta(name="high"), value=1000),)
    manifest = {"apiVersion": "v1", "kind": "List", "items": created}
    got = [comparable(each) for each in by_name(units_of(judged(manifest, known)))]
    want = [comparable(each) for each in by_name(units)]
    if key in PLAYED:
        got, want = list(map(without_pod_defaults, got)), list(map(without_pod_defaults, want))
    assert want, "the controllers made no unit"
    assert got == want


def test_a_kind_whose_pods_another_object_describes_is_held_until_it_exists() -> None:
    verdict = judged_one(body_of("trainjob"))
    assert verdict.unit is None
    assert verdict.managed
    assert "held without a unit" in verdict.message
    assert "JobSet" in verdict.message


# --- whether, and why not -------------------------------------------------------------------------

OTHER_LABEL: Final = "quota.scheduling.koordinator.sh/nmae"


def job(**changes: Any) -> Json:
    """Return the Job with other metadata; `spec` is merged."""
    body: Json = yaml.safe_load(JOB)
    body["spec"] |= changes.pop("spec", {})
    body["metadata"] |= changes
    return body


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        pytest.param(job(), "NamesQueueOrQuota", "It is managed", id="it names a quota"),
        pytest.param(job(labels={}), "NamesNothing", "names no queue or quota", id="no label"),
        pytest.param(
            job(labels={"kueue.x-k8s.io/queue-name": "q"}), "LeftToKueue", "Kueue", id="Kueue's"
        ),
        pytest.param(
            job(namespace="kube-system"), "NamespaceExcluded", "never managed", id="namespace"
        ),
        pytest.param(
            job(spec={"managedBy": "example.com/other"}), "ManagedByOther", "managedBy", id="other"
        ),
        pytest.param(
            job(
                ownerReferences=[
                    {
                        "apiVersion": "jobset.x-k8s.io/v1alpha2",
                        "kind": "JobSet",
                        "name": "top",
                        "uid": "1",
                        "controller": True,
                    }
                ]
            ),
            "Owned",
            "JobSet top owns it",
            id="owned by another job",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
            "UnknownKind",
            "ConfigMap (v1) is no kind of job",
            id="another kind",
        ),
        pytest.param(
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "ElasticQuota",
                "metadata": {"name": "team"},
            },
            "UnknownKind",
            "is no kind of job that is known. Jobs are tried as if it were not in the manifest",
            id="a quota beside its jobs",
        ),
        pytest.param(
            sample("deployment"), "UnknownKind", "try what it creates", id="what only makes pods"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
            "NamesNothing",
            "names no queue",
            id="a pod without a queue",
        ),
    ],
)
def test_whether_a_job_is_managed_and_why_not(body: Json, reason: str, says: str) -> None:
    verdict = judged_one(body)
    assert verdict.reason == reason
    assert says in verdict.message
    assert (verdict.unit is not None) is verdict.managed
    assert bool(verdict.known_kinds) is (reason == "UnknownKind")


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        pytest.param(
            job(annotations={"scheduling.x-k8s.io/priority": "high"}),
            "IgnoredAnnotation",
            "is ignored: 'high'",
            id="a value that cannot be read",
        ),
        pytest.param(
            job(labels={OTHER_LABEL: "gold", "quota.scheduling.koordinator.sh/name": "gold"}),
            "KeyWithoutEffect",
            OTHER_LABEL,
            id="a misspelled key",
        ),
        pytest.param(
            job(labels={OTHER_LABEL: "gold"}),
            "KeyWithoutEffect",
            "no queue will resume it",
            id="a misspelled key, and no other",
        ),
    ],
)
def test_what_an_event_would_warn_of(body: Json, reason: str, says: str) -> None:
    (problem,) = judged_one(body).problems
    assert problem.reason == reason
    assert says in problem.message


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(job(spec={"parallelism": "two"}), "spec.parallelism", id="a text"),
        pytest.param(job(name=""), "metadata.name", id="no name"),
        pytest.param({"kind": "Job", "metadata": {"name": "a"}}, "apiVersion", id="no version"),
        pytest.param(job(namespace="nowhere"), "metadata.namespace", id="no such namespace"),
        pytest.param({**job(), "metadata": ["a"]}, "metadata.name", id="metadata is a list"),
    ],
)
def test_an_error_names_its_field(body: Json, field: str) -> None:
    (error,) = judged_one(body).errors
    assert error.field == field
    assert error.message


def queued(phase: str = "Enqueued", **consumer: str) -> Known:
    """Return what is known when the job is queued already; `consumer`: what its unit is of."""
    first = judged_one(JOB).unit
    assert first is not None
    first["spec"]["consumerRef"] |= consumer
    unit = msgspec.convert({**first, "status": {"phase": phase}}, QueueUnit)
    return Known(units={"team/train": unit})


def test_a_job_that_is_queued_already_gets_no_second_unit() -> None:
    verdict = judged_one(JOB, queued())
    assert (verdict.unit, verdict.errors) == (None, ())
    assert (verdict.existing, verdict.patch) == ("team/train", {})


@pytest.mark.parametrize(
    ("phase", "want"),
    [
        pytest.param("Enqueued", {"priority": 9, "podSet": 3, "queue": "silver"}, id="it waits"),
        pytest.param("TimeoutBackoff", {"priority": 9, "podSet": 3, "queue": "silver"},
            id="it waits for a retry"),
        pytest.param("Running", {"priority": 9}, id="it runs: its shape and place are fixed"),
        pytest.param("Succeed", {"priority": 9}, id="it has ended"),
    ],
)  # fmt: skip
def test_what_a_manifest_changes_of_a_job_that_is_queued(phase: str, want: Json) -> None:
    body = yaml.safe_load(JOB)
    body["metadata"]["annotations"]["scheduling.x-k8s.io/priority"] = "9"
    body["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = "silver"
    body["spec"] |= {"parallelism": 3, "completions": 3}
    spec = judged_one(body, queued(phase)).patch["spec"]
    assert {key: spec.get(key) for key in ("priority", "queue")} == {
        key: want.get(key) for key in ("priority", "queue")
    }
    assert [each["count"] for each in spec.get("podSet", [])] == [3] * ("podSet" in want)


def test_a_unit_of_another_job_takes_the_name_only() -> None:
    verdict = judged_one(JOB, queued(kind="PyTorchJob"))
    assert verdict.existing == ""
    assert verdict.unit is not None
    assert verdict.unit["metadata"]["name"] == "train-00000000"


def test_a_generated_name_and_a_missing_namespace_are_filled_in() -> None:
    body = job(generateName="train-")
    del body["metadata"]["name"], body["metadata"]["namespace"]
    document = judged_one(body).document
    assert (document.namespace, document.name) == ("team", "train-xxxxx")


def test_what_only_the_server_sets_does_not_count() -> None:
    """A manifest that was read from a cluster."""
    body = job(uid="1", creationTimestamp="2020-01-01T00:00:00Z", resourceVersion="7")
    body["metadata"]["deletionTimestamp"] = "2020-01-02T00:00:00Z"
    body["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert comparable(judged_one(body).unit or {}) == comparable(judged_one(JOB).unit or {})


def test_a_pod_that_names_a_queue_gets_the_gate_that_admission_policies_add() -> None:
    gated = sample("pod")
    free = json.loads(json.dumps(gated))
    del free["spec"]["schedulingGates"]
    assert comparable(judged_one(free).unit or {}) == comparable(judged_one(gated).unit or {})


def test_pods_of_a_group_are_one_job_of_all_their_objects() -> None:
    verdicts = judged(sample("podgroup"))
    assert [each.reason for each in verdicts] == ["NoJob", "GatedPods"]
    assert [each.number for each in verdicts[1].documents] == [2, 3]


def test_a_priority_of_an_unknown_class_is_listed() -> None:
    known = Known()
    assert CLASSES_NOT_LOOKED_UP in known.facts().not_looked_up
    known.classes = ()
    assert CLASSES_NOT_LOOKED_UP not in known.facts().not_looked_up
