"""Pods that are parked at the gate, on a real API server: which are, and what nobody may write.

The users have `edit`, the chart's role of the controllers, and all rights.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.charts.render import NAMESPACE, as_manifest, render, rights
from tests.charts.values_table import GATED, values_with
from tests.cluster.queue_world import ELASTIC_QUOTA_CRD, MERGE, QUOTA_LABEL, QUOTAS
from tests.cluster.rbac_objects import binding
from tests.cluster.test_gate_policy import GATE, MANAGED, PLAIN, QUEUE, gates, pod
from tests.cluster.test_release_policy import EDIT
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane
from tests.waiting import until

Json = Any

USER, CONTROLLERS, ADMIN = "ann", "jobs-account", "admin"
FORBIDDEN: Final = 403
STRATEGIC: Final = "application/strategic-merge-patch+json"
QUOTA: Final = "parked"
IN, FROM, RELEASED = (f"koord-queue/{name}" for name in ("parked-in", "parked-from", "released-at"))
VALUES: Final = values_with(
    "batchjob",
    *GATED,
    quotaNamespaces="listed",
    admissionPolicy={"parkingQuota": QUOTA, "quotasFrom": ["quotas"]},
)
NOTED: Final = {IN: QUOTA, FROM: "mine"}
OPENED: Final = {"spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]}}


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    """The policies and the parking quota are in force; team-a may not name `gold`."""
    users: dict[str, list[str]] = {USER: [], CONTROLLERS: []}
    with ControlPlane(controlplane_binaries, users=users) as running:
        labelled = {"name": MANAGED, "labels": {"koord-queue/managed": "true"}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}
        running.kubectl("apply", "--filename", "-", input=as_manifest([namespace]))
        for name in (NAMESPACE, PLAIN, "quotas"):
            running.kubectl("create", "namespace", name)
        running.kubectl("apply", "--server-side", "--filename", str(ELASTIC_QUOTA_CRD))
        running.kubectl("wait", "--for=condition=Established", "crd", "--all")
        kinds = ("MutatingAdmission", "ValidatingAdmission", "ElasticQuota")
        made = [each for each in render(VALUES) if each["kind"].startswith(kinds)]
        given = [*rights("controllers", user=CONTROLLERS, values=VALUES)]
        given += [binding(each, USER, PLAIN) for each in EDIT]
        manifest = as_manifest([*given, *quotas(), *made])
        running.kubectl("apply", "--server-side", "--filename", "-", input=manifest)
        until(lambda: label(create(running, pod(labels=QUEUE))) == QUOTA)
        until(lambda: refusal(running, ADMIN, pod(labels={QUOTA_LABEL: QUOTA})))
        until(lambda: refusal(running, ADMIN, pod(labels={QUOTA_LABEL: "gold"})))
        yield running


def quotas() -> list[Json]:
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
    where = {"namespace": "quotas"}
    mine = {"quota.scheduling.koordinator.sh/namespaces": f'["{PLAIN}"]'}
    return [
        {**kind, "metadata": {**where, "name": "gold"}, "spec": {"max": {"cpu": "4"}}},
        {
            **kind,
            "metadata": {**where, "name": "mine", "annotations": mine},
            "spec": {"max": {"cpu": "4"}},
        },
    ]


def create(
    plane: ControlPlane, body: Json, namespace: str = PLAIN, *, user: str = ADMIN, dry: bool = True
) -> Json:
    path = f"/api/v1/namespaces/{namespace}/pods{'?dryRun=All' if dry else ''}"
    return plane.client_for(user).request("POST", path, body)


def label(made: Json) -> str | None:
    found: str | None = made["metadata"].get("labels", {}).get(QUOTA_LABEL)
    return found


def notes(made: Json) -> dict[str, str]:
    found = made["metadata"].get("annotations", {})
    return {key: found[key] for key in (IN, FROM) if key in found}


def denied(send: Any) -> str:
    """Return why a policy denies a request, "" where none does."""
    try:
        send()
    except ApiError as error:
        if error.status != FORBIDDEN or "ValidatingAdmissionPolicy" not in str(error):
            raise
        return str(error)
    return ""


def refusal(plane: ControlPlane, user: str, body: Json, namespace: str = PLAIN) -> str:
    return denied(lambda: create(plane, body, namespace, user=user))


def change(plane: ControlPlane, user: str, made: Json, *patches: Json) -> str:
    """Return why a user may not change a pod like this, "" where that is allowed."""
    body: Json = {}
    for each in patches:
        body |= each
    path = f"/api/v1/namespaces/{PLAIN}/pods/{made['metadata']['name']}?dryRun=All"
    client = plane.client_for(user)
    return denied(lambda: client.request("PATCH", path, body, content_type=STRATEGIC))


def meta(annotations: Json = None, **labels: str | None) -> Json:
    named = {QUOTA_LABEL: labels["quota"]} if "quota" in labels else {}
    return {"metadata": {"labels": named, "annotations": annotations or {}}}


HELD = pod(labels=QUEUE, gates=(GATE,))
PARKED = pod(labels={**QUEUE, QUOTA_LABEL: "mine"})


@pytest.mark.parametrize(
    ("body", "namespace", "own"),
    [
        pytest.param(PARKED, PLAIN, "mine", id="it names a queue"),
        pytest.param(pod(labels=QUEUE), PLAIN, "", id="it has no quota"),
        pytest.param(pod(labels={QUOTA_LABEL: "mine"}), MANAGED, "mine", id="of a namespace"),
        pytest.param(pod(gates=(GATE, "x/y")), PLAIN, "", id="it came with the gate"),
        pytest.param(pod(("apps/v1", "StatefulSet"), labels=QUEUE), PLAIN, "", id="of a set"),
        pytest.param(
            pod(labels={**QUEUE, QUOTA_LABEL: QUOTA}, annotations=NOTED),
            PLAIN,
            "mine",
            id="a copy of one that is parked",
        ),
        pytest.param(
            pod(labels={**QUEUE, QUOTA_LABEL: "mine"}, annotations={IN: QUOTA, FROM: "gold"}),
            PLAIN,
            "mine",
            id="a forged note",
        ),
    ],
)
def test_who_is_parked(plane: ControlPlane, body: Json, namespace: str, own: str) -> None:
    if namespace == MANAGED:
        listed = '["team-a", "team-m"]'
        path = f"{QUOTAS.format('quotas')}/mine"
        many = {"metadata": {"annotations": {"quota.scheduling.koordinator.sh/namespaces": listed}}}
        plane.client_for().request("PATCH", path, many, content_type=MERGE)
        until(lambda: not refusal(plane, ADMIN, body, namespace))
    made = create(plane, body, namespace)
    assert GATE in gates(made)
    assert label(made) == QUOTA
    assert notes(made) == {IN: QUOTA, FROM: own}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(), id="of no queue"),
        pytest.param(pod(("batch/v1", "Job"), labels=QUEUE), id="of a Job"),
        pytest.param(pod(("apps/v1", "DaemonSet"), gates=(GATE,)), id="of a DaemonSet"),
        pytest.param(pod(gates=("x/y",)), id="with another gate"),
    ],
)
def test_who_is_not(plane: ControlPlane, body: Json) -> None:
    made = create(plane, body)
    assert (label(made), notes(made)) == (None, {})


@pytest.mark.parametrize("user", [USER, ADMIN])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod(labels={QUOTA_LABEL: QUOTA}), id="no gate"),
        pytest.param(pod(labels={QUOTA_LABEL: QUOTA}, annotations=NOTED), id="a note, no gate"),
        pytest.param(pod(("apps/v1", "DaemonSet"), labels={QUOTA_LABEL: QUOTA}), id="a DaemonSet"),
        pytest.param(pod(labels={**QUEUE, QUOTA_LABEL: QUOTA}), id="as its own quota"),
    ],
)
def test_no_other_pod_may_name_the_quota(plane: ControlPlane, user: str, body: Json) -> None:
    assert "pods at the scheduling gate" in refusal(plane, user, body)
    for namespace in ("kube-system", NAMESPACE):
        assert refusal(plane, ADMIN, body, namespace), "in no namespace"


def test_what_a_parked_pod_may_become(plane: ControlPlane) -> None:
    made = create(plane, PARKED, dry=False)
    free = meta(dict.fromkeys((IN, FROM)), quota="mine")
    for user in (CONTROLLERS, ADMIN):
        assert change(plane, user, made, OPENED, free) == "", "as the release writes it"
        assert change(plane, user, made, OPENED) == "", "the controllers restore it then"
        assert change(plane, user, made, OPENED, meta({RELEASED: "x"})), "nobody restores that one"
        assert change(plane, user, made, OPENED, meta(dict.fromkeys((IN, FROM)))), "nor that"
    assert change(plane, USER, made, OPENED), "the gate is the queue's"
    assert change(plane, USER, made, meta({FROM: QUOTA})), "no quota of its own"
    assert change(plane, USER, made, meta({FROM: None})), "the note stays"
    assert "may not name quota gold" in change(plane, USER, made, meta({FROM: "gold"}))
    assert "may not name quota gold" in change(plane, USER, made, meta(quota="gold"))
    assert change(plane, USER, made, meta({FROM: ""})) == ""
    assert change(plane, USER, made, meta(quota="mine")) == "", "its own label, back at once"


def test_a_living_pod_may_not_take_the_label(plane: ControlPlane) -> None:
    made = create(plane, pod(labels={QUOTA_LABEL: "mine"}), dry=False)
    for user in (USER, ADMIN):
        assert change(plane, user, made, meta(quota=QUOTA))
        assert change(plane, user, made, meta(NOTED, quota=QUOTA))


def test_a_job_may_not_name_the_quota(plane: ControlPlane) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    named = {"generateName": "x-", "labels": {QUOTA_LABEL: QUOTA}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": named}
    body["spec"] = {"suspend": True, "template": template}
    path = f"/apis/batch/v1/namespaces/{PLAIN}/jobs?dryRun=All"
    client = plane.client_for(USER)
    assert "nothing is admitted in it" in denied(lambda: client.request("POST", path, body))


def test_without_the_quota_or_with_a_max_nothing_is_parked(plane: ControlPlane) -> None:
    """The last test of this module: it deletes the quota."""
    client, path = plane.client_for(), f"{QUOTAS.format(NAMESPACE)}/{QUOTA}"
    client.request("PATCH", path, {"spec": {"max": {"cpu": "1"}}}, content_type=MERGE)
    until(lambda: label(create(plane, PARKED)) == "mine")
    client.request("PATCH", path, {"spec": {"max": {"cpu": None}}}, content_type=MERGE)
    until(lambda: label(create(plane, PARKED)) == QUOTA)
    client.request("DELETE", path)
    until(lambda: label(create(plane, PARKED)) == "mine")
    assert gates(create(plane, PARKED)) == [GATE], "it waits all the same"
