"""The chart's policies for pods on a real API server: which get the gate at their creation.

The gated pods are those that the controllers manage: the adapters read the same pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.job_families.gated_pods import GatedPods
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.well_known_labels import SCHEDULE_ADMISSION
from tests.charts.render import NAMESPACE, as_manifest, render
from tests.charts.values_table import GATED, values_with
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until

Json = Any

GATE: Final = "koord-queue/admission"
QUEUE: Final = {"koord-queue/queue-name": "q"}
LWS: Final = "leaderworkerset.sigs.k8s.io/"
LEADER: Final = {f"{LWS}name": "l", f"{LWS}group-index": "0", f"{LWS}worker-index": "0"}
MANAGED, OLDER, PLAIN = "team-m", "team-o", "team-a"


def pod(
    owner: tuple[str, str] | None = None,
    *,
    annotations: dict[str, str] | None = None,
    gates: tuple[str, ...] = (),
    node: str = "",
    labels: dict[str, str] | None = None,
) -> Json:
    """Return a pod; `owner`: apiVersion and kind of its controller."""
    spec: Json = {"containers": [{"name": "c", "image": "i"}]}
    if gates:
        spec["schedulingGates"] = [{"name": name} for name in gates]
    if node:
        spec["nodeName"] = node
    meta: Json = {"generateName": "x-", "labels": labels or {}, "annotations": annotations or {}}
    if owner is not None:
        version, kind = owner
        who = {"apiVersion": version, "kind": kind, "name": "o", "uid": "1", "controller": True}
        meta["ownerReferences"] = [who]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    """All kinds that are held by gates are enabled, with their policies and the label."""
    with ControlPlane(controlplane_binaries) as running:
        for name, key in ((MANAGED, "koord-queue/managed"), (OLDER, "kube-queue/managed")):
            labelled = {"name": name, "labels": {key: "true"}}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}
            running.kubectl("apply", "--filename", "-", input=as_manifest([body]))
        for name in (NAMESPACE, PLAIN):
            running.kubectl("create", "namespace", name)
        asks = {"config": {"scheduleAdmissionLabel": True, "leaveToKueue": True}}
        put_into_force(running, *GATED, held=list(HELD), controllers=asks)
        until(lambda: label(created(running, pod(labels=QUEUE))) is not None)
        yield running


def put_into_force(plane: ControlPlane, *switches: str, held: list[str], **values: Json) -> None:
    """Apply the policies that the chart renders, and wait until they hold these of HELD.

    The API server caches them after a second or two, not all at the same moment.
    """
    objects = render(values_with(*switches, **values))
    policies = [each for each in objects if each["kind"].startswith("MutatingAdmission")]
    plane.kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(policies))
    until(lambda: is_held(plane, pod(labels=QUEUE)))
    for namespace in (MANAGED, OLDER):
        until(partial(are_held, plane, held, namespace))


def are_held(plane: ControlPlane, about: list[str], namespace: str) -> bool:
    """Return whether exactly these of HELD get the gate there."""
    return [one for one, body in HELD.items() if is_held(plane, body, namespace)] == about


def created(plane: ControlPlane, body: Json, namespace: str = PLAIN) -> Json:
    path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All&fieldValidation=Strict"
    return plane.client_for().request("POST", path, body)


def gates(made: Json) -> list[str]:
    return [each["name"] for each in made["spec"].get("schedulingGates", [])]


def label(made: Json) -> str | None:
    said: str | None = made["metadata"].get("labels", {}).get(SCHEDULE_ADMISSION)
    return said


def is_held(plane: ControlPlane, body: Json, namespace: str = PLAIN) -> bool:
    return GATE in gates(created(plane, body, namespace))


HELD: Final = {
    "alone": pod(),
    "of a Deployment": pod(("apps/v1", "ReplicaSet")),
    "of a StatefulSet": pod(("apps/v1", "StatefulSet")),
    "of a group of Kueue": pod(labels={"kueue.x-k8s.io/pod-group-name": "g"}),
    "of a PodGroup": pod(labels={"pod-group.scheduling.sigs.k8s.io": "g"}),
    "of a PodGroup, in full": pod(labels={"pod-group.scheduling.sigs.k8s.io/name": "g"}),
    "of a PodGroup of the plugins": pod(labels={"scheduling.x-k8s.io/pod-group": "g"}),
    "of a gang": pod(annotations={"gang.scheduling.koordinator.sh/name": "g"}),
    "of a group of an unknown kind": pod(
        ("example.com/v1", "Widget"), labels={"kueue.x-k8s.io/pod-group-name": "g"}
    ),
    "a leader": pod(("apps/v1", "StatefulSet"), labels=LEADER),
}
LEFT: Final = {
    "of a Job": pod(("batch/v1", "Job")),
    "of a group of a Job": pod(("batch/v1", "Job"), labels={"kueue.x-k8s.io/pod-group-name": "g"}),
    "of a DaemonSet": pod(("apps/v1", "DaemonSet")),
    "of an unknown kind": pod(("example.com/v1", "Widget")),
    "of another StatefulSet": pod(("apps.kruise.io/v1beta1", "StatefulSet")),
    "on a node": pod(node="n"),
    "Kueue's": pod(labels={"kueue.x-k8s.io/queue-name": "q"}),
}


@pytest.mark.parametrize("about", HELD)
def test_pods_that_are_queued_get_the_gate(plane: ControlPlane, about: str) -> None:
    body = HELD[about]
    assert not is_held(plane, body), "neither it nor its namespace is labeled"
    assert is_held(plane, body, MANAGED)
    assert is_held(plane, body, OLDER)
    labelled = {**body, "metadata": {**body["metadata"], "labels": {
        **body["metadata"]["labels"], **QUEUE}}}  # fmt: skip
    made = created(plane, labelled)
    assert gates(made) == [GATE]
    assert label(made) == "false"
    assert made["metadata"]["labels"].items() >= labelled["metadata"]["labels"].items()
    found = msgspec.convert(made, ScheduledPod)
    served = [each for each in EXTENSIONS if isinstance(each, GatedPods)]
    assert len([each for each in served if each.group_of(found)]) == 1, "one extension manages it"


@pytest.mark.parametrize("about", LEFT)
def test_pods_that_would_never_be_released_are_left_alone(plane: ControlPlane, about: str) -> None:
    body = LEFT[about]
    labels = {**QUEUE, **body["metadata"]["labels"]}
    labelled = {**body, "metadata": {**body["metadata"], "labels": labels}}
    for made in (created(plane, labelled), created(plane, body, MANAGED)):
        assert GATE not in gates(made)
        assert label(made) is None


def test_pods_of_the_system_are_left_alone(plane: ControlPlane) -> None:
    assert not is_held(plane, pod(labels=QUEUE), "kube-system")
    assert not is_held(plane, pod(labels=QUEUE), NAMESPACE)


def test_an_existing_gate_is_not_added_twice(plane: ControlPlane) -> None:
    assert gates(created(plane, pod(gates=(GATE, "x/y"), labels=QUEUE))) == [GATE, "x/y"]
    assert sorted(gates(created(plane, pod(gates=("x/y",), labels=QUEUE)))) == [GATE, "x/y"]


@pytest.mark.parametrize("said", ["true", "false", "perhaps"])
def test_a_pod_that_has_the_label_already_is_held(plane: ControlPlane, said: str) -> None:
    body = pod(labels={**QUEUE, SCHEDULE_ADMISSION: said}, gates=(GATE,))
    made = created(plane, body)
    assert (gates(made), label(made)) == ([GATE], "false")
    loose = pod(labels={SCHEDULE_ADMISSION: said})
    assert label(created(plane, loose)) == said, "it names no queue"


@pytest.mark.parametrize(
    "said", [{}, {"leaveToKueue": False}], ids=["none is served", "the value says so"]
)
def test_a_pod_with_the_label_of_kueue_gets_the_gate_where_it_is_not_left_to_kueue(
    plane: ControlPlane, said: Json
) -> None:
    theirs = LEFT["Kueue's"]
    asking = pod(labels={**theirs["metadata"]["labels"], **QUEUE})

    def are_all(want: bool) -> bool:
        held = (is_held(plane, asking), is_held(plane, theirs, MANAGED))
        return held == (want, want)

    for config, want in ((said, True), ({"leaveToKueue": True}, False)):
        asks = {"config": {"scheduleAdmissionLabel": True, **config}}
        put_into_force(plane, *GATED, held=list(HELD), controllers=asks)
        until(partial(are_all, want))


def test_only_enabled_kinds_are_held(plane: ControlPlane) -> None:
    """The last test of this module: it changes the policies."""
    only = ["alone", "of a Deployment"]
    put_into_force(plane, "pod", held=only, controllers={"config": {"leaveToKueue": True}})
    assert are_held(plane, only, MANAGED)
    # The label is not enabled any more.
    until(lambda: label(created(plane, HELD["alone"], MANAGED)) is None)
