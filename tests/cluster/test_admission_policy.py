"""The chart's admission policies on a real API server: every kind, held at its creation.

What they hold is compared with what the controllers manage: the adapters read the same objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from queue_controllers.extensions.declared_kind import (
    DeclaredAdapter,
    DeclaredJob,
    DeclaredKind,
)
from tests.charts.render import NAMESPACE, as_manifest, of_kind, render
from tests.charts.values_table import SWITCHES, WIDGET, values_with
from tests.cluster.kind_kit import (
    ADAPTERS,
    SERVED,
    body_of,
    install,
    path_of,
    switch_of,
)
from tests.cluster.kind_table import set_at, take_at, value_at
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane
from tests.sample_jobs import open_crd
from tests.waiting import until

Json = Any

NOT_FOUND: Final = 404
UNAVAILABLE: Final = 503

QUEUE: Final = {"koord-queue/queue-name": "q"}
SUSPEND: Final = "scheduling.x-k8s.io/suspend"
OWNER: Final = {"apiVersion": "x/v1", "name": "o", "uid": "1", "controller": True}
MANAGED, PLAIN = "team-m", "team-a"

CONFIG: Final = {"kinds": [WIDGET], "leaveToKueue": True}
ALL: Final = values_with(*SWITCHES, controllers={"config": CONFIG})
"""All kinds are enabled, and one is declared."""

WIDGET_CRD: Final = open_crd("Widget", "widgets", "example.com")

every_kind = pytest.mark.parametrize("key", SERVED)
EACH_WAY: Final = ("job", "tfjob", "sparkapp")
each_way = pytest.mark.parametrize("key", EACH_WAY)
"""The rules of ownership are shared by all kinds: these represent them."""


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    """All kinds are served and enabled, and their policies in force."""
    with ControlPlane(controlplane_binaries) as running:
        labelled = {"name": MANAGED, "labels": {"koord-queue/managed": "true"}}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": labelled}
        running.kubectl("apply", "--filename", "-", input=as_manifest([namespace]))
        for name in (NAMESPACE, PLAIN):
            running.kubectl("create", "namespace", name)
        install(running, *SERVED)
        running.kubectl("apply", "--filename", "-", input=as_manifest([WIDGET_CRD]))
        police(running, ALL)
        await_policies(running, *SERVED)
        until(lambda: _holds_widgets(running))
        yield running


def police(plane: ControlPlane, values: Json) -> None:
    """Apply the admission policies that the chart renders."""
    policies = [each for each in render(values) if each["kind"].startswith("MutatingAdmission")]
    manifest = as_manifest(policies)
    plane.kubectl("apply", "--server-side", "--filename", "-", input=manifest)


def await_policies(plane: ControlPlane, *keys: str) -> None:
    """Wait until objects of these kinds are held."""
    for key in keys:
        until(partial(_is_in_force, plane, key))


def _is_in_force(plane: ControlPlane, key: str) -> bool:
    try:
        held = is_held(plane, key, body_of(key, labels=QUEUE))
        return held and is_held(plane, key, body_of(key), MANAGED)
    except ApiError as error:
        if error.status != UNAVAILABLE:
            raise
        # What the policies match waits for the server to know its kind.
        return False


def _holds_widgets(plane: ControlPlane) -> bool:
    try:
        return value_at(created_widget(plane, widget()), ("spec", "policy", "suspend")) is True
    except ApiError as error:
        if error.status not in {NOT_FOUND, UNAVAILABLE}:
            raise
        return False


def created(plane: ControlPlane, key: str, body: Json, namespace: str = PLAIN) -> Json:
    """Return an object as it would be stored."""
    path = f"{path_of(ADAPTERS[key].kind, namespace)}?dryRun=All&fieldValidation=Strict"
    return plane.client_for().request("POST", path, body)


def is_held(plane: ControlPlane, key: str, body: Json, namespace: str = PLAIN) -> bool:
    """Return whether an object would be stored suspended."""
    return value_at(created(plane, key, body, namespace), switch_of(key)) is True


# ---------------------------------------------------------------------------------------- ownership


@each_way
@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"labels": QUEUE}, id="a queue by label"),
        pytest.param({"annotations": QUEUE}, id="a queue by annotation"),
        pytest.param({"labels": {"kube-queue/queue-name": "q"}}, id="by the older label"),
        pytest.param({"labels": {"quota.scheduling.koordinator.sh/name": "a"}}, id="a quota"),
        pytest.param({"labels": {"alibabacloud.com/quota-name": "a"}}, id="an older quota label"),
        pytest.param({"annotations": {SUSPEND: "true"}}, id="requested by annotation"),
        pytest.param(
            {"labels": QUEUE, "ownerReferences": [{**OWNER, "kind": "CronJob"}]}, id="by a CronJob"
        ),
        pytest.param(
            {"labels": QUEUE, "ownerReferences": [{**OWNER, "kind": "X", "controller": False}]},
            id="owned by another object than its controller",
        ),
    ],
)
def test_a_job_for_the_queue_is_held(plane: ControlPlane, key: str, metadata: Json) -> None:
    body = body_of(key)
    for name, added in metadata.items():
        given = body["metadata"].get(name, {})
        body["metadata"][name] = {**given, **added} if isinstance(added, dict) else added
    assert is_held(plane, key, body)


@each_way
@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="no label"),
        pytest.param({"labels": {"app": "x"}}, id="other labels"),
        pytest.param({"labels": {"koord-queue/queue-name": ""}}, id="an empty queue name"),
        pytest.param(
            {"labels": {**QUEUE, "kueue.x-k8s.io/queue-name": "k"}}, id="it belongs to Kueue"
        ),
        pytest.param(
            {"labels": QUEUE, "ownerReferences": [{**OWNER, "kind": "JobSet"}]},
            id="a part of another job, which would never be released",
        ),
    ],
)
def test_other_jobs_are_left_alone(plane: ControlPlane, key: str, metadata: Json) -> None:
    assert not is_held(plane, key, body_of(key, **metadata))


@every_kind
def test_a_labeled_namespace_holds_all_its_jobs(plane: ControlPlane, key: str) -> None:
    assert is_held(plane, key, body_of(key), MANAGED)
    owned = body_of(key, ownerReferences=[{**OWNER, "kind": "RayJob"}])
    assert not is_held(plane, key, owned, MANAGED)


@each_way
@pytest.mark.parametrize("namespace", ["kube-system", NAMESPACE])
def test_some_namespaces_are_never_held(plane: ControlPlane, key: str, namespace: str) -> None:
    assert not is_held(plane, key, body_of(key, labels=QUEUE), namespace)


@pytest.mark.parametrize(
    ("key", "starter"), [("workflow", "CronWorkflow"), ("rayjob", "RayCronJob")]
)
def test_a_job_of_a_starter_is_held_only_if_it_names_a_queue_itself(
    plane: ControlPlane, key: str, starter: str
) -> None:
    owners = [{**OWNER, "kind": starter}]
    assert is_held(plane, key, body_of(key, labels=QUEUE, ownerReferences=owners), MANAGED)
    assert not is_held(plane, key, body_of(key, ownerReferences=owners), MANAGED)
    other = [{**OWNER, "kind": "CronJob"}]
    assert is_held(plane, key, body_of(key, ownerReferences=other), MANAGED)


# -------------------------------------------------------------------------------------- their specs


@every_kind
@pytest.mark.parametrize("said", [False, True])
def test_the_users_value_of_the_switch_is_ignored(
    plane: ControlPlane, key: str, said: bool
) -> None:
    body = body_of(key, labels=QUEUE)
    set_at(body, switch_of(key), value=said)
    assert is_held(plane, key, body)
    body["metadata"]["labels"] = {}
    assert is_held(plane, key, body) is said


@pytest.mark.parametrize("key", [key for key in SERVED if key != "job"])  # each gets a selector
def test_nothing_else_of_the_object_is_changed(plane: ControlPlane, key: str) -> None:
    body = body_of(key, labels=QUEUE, generateName=None, name="x")
    stands_in = switch_of(key)[1:-1]
    for around in (None, {"backoffLimit": 3}):
        body["spec"] |= {name: around for name in stands_in if around}
        got = created(plane, key, body)
        unlabelled = {**body, "metadata": {**body["metadata"], "labels": {}}}
        want = created(plane, key, unlabelled)
        set_at(want, switch_of(key), value=True)
        assert got["spec"] == want["spec"]


@every_kind
def test_a_foreign_controller_keeps_its_jobs(plane: ControlPlane, key: str) -> None:
    foreign_manager = getattr(ADAPTERS[key], "foreign_manager", None)
    if foreign_manager is None:
        assert "managedBy" not in conditions().get(f"can-be-held-if-{key}", "")
        return
    body = body_of(key, labels=QUEUE)
    field = (*switch_of(key)[:-1], "managedBy")
    usual = re.findall(r"managedBy.* in \['', '(.*?)'\]", conditions()[f"can-be-held-if-{key}"])
    for manager, held in [*((each, True) for each in usual), ("kueue.x-k8s.io/multikueue", False)]:
        set_at(body, field, value=manager)
        assert (foreign_manager(decoded(key, body)) == "") is held
        assert is_held(plane, key, body) is held
    assert len(usual) == 1


def conditions() -> dict[str, str]:
    """Return the match conditions of the policy for jobs that name a queue, all kinds enabled."""
    policy = of_kind(render(values_with(*SWITCHES)), "MutatingAdmissionPolicy")[
        "koord-queue-hold-jobs"
    ]
    return {one["name"]: one["expression"] for one in policy["spec"]["matchConditions"]}


def decoded(key: str, body: Json) -> Json:
    """Return the body as the controllers decode it."""
    return msgspec.json.decode(msgspec.json.encode(body), type=ADAPTERS[key].object_type)


def changed(key: str, **spec: Json) -> Json:
    """Return a labeled sample with changed spec fields; None removes one."""
    body = body_of(key, labels=QUEUE)
    for name, value in spec.items():
        if value is None:
            take_at(body, ("spec", name))
        else:
            set_at(body, ("spec", name), value)
    return body


def workflow(**annotations: str) -> Json:
    return body_of("workflow", labels=QUEUE, annotations=annotations)


def spark(conf: Json = None, **roles: Json) -> Json:
    body = changed("sparkapp", **({"sparkConf": conf} if conf else {}))
    for role, fields in roles.items():
        body["spec"][role] |= fields
    return body


NEEDS: Final = "koord-queue/min-resources"

SURVIVE: Final = {
    "a RayJob that is shut down when it ends": ("rayjob", changed("rayjob"), True),
    "a RayJob with an empty selector": ("rayjob", changed("rayjob", clusterSelector={}), True),
    "a RayJob whose cluster stays": (
        "rayjob",
        changed("rayjob", shutdownAfterJobFinishes=False),
        False,
    ),
    "a RayJob that does not set that": (
        "rayjob",
        changed("rayjob", shutdownAfterJobFinishes=None),
        False,
    ),
    "a RayJob on an existing cluster": (
        "rayjob",
        changed("rayjob", clusterSelector={"ray.io/cluster": "c"}),
        False,
    ),
    "a Workflow, line by line": ("workflow", workflow(**{NEEDS: "cpu: 4\nmemory: 8Gi\n"}), True),
    "a Workflow in JSON": ("workflow", workflow(**{NEEDS: '{"cpu": "4", "a.b/gpu": "1"}'}), True),
    "a Workflow under the older key": (
        "workflow",
        workflow(**{"kube-queue/min-resources": "cpu: 500m"}),
        True,
    ),
    "a Workflow without its resources": ("workflow", workflow(), False),
    "a Workflow with empty resources": ("workflow", workflow(**{NEEDS: " "}), False),
    "a Workflow with invalid resources": ("workflow", workflow(**{NEEDS: "four cpus"}), False),
    "a Workflow with a negative size": ("workflow", workflow(**{NEEDS: "cpu: -1"}), False),
    "a Workflow whose new key is invalid": (
        "workflow",
        workflow(**{NEEDS: "?", "kube-queue/min-resources": "cpu: 1"}),
        False,
    ),
    "Spark with settings": (
        "sparkapp",
        spark({"spark.executor.memory": "2g", "spark.executor.memoryOverheadFactor": "0.2"}),
        True,
    ),
    "Spark with unrelated settings": (
        "sparkapp",
        spark({"spark.ui.port": "none", "spark.eventLog.dir": "s3a://x"}),
        True,
    ),
    "Spark with an invalid driver memory": ("sparkapp", spark(driver={"memory": "much"}), False),
    "Spark with an invalid executor memory": (
        "sparkapp",
        spark(executor={"memory": "4gb!"}),
        False,
    ),
    "Spark with an invalid overhead": (
        "sparkapp",
        spark(executor={"memoryOverhead": "x"}),
        False,
    ),
    "Spark with an invalid factor": (
        "sparkapp",
        changed("sparkapp", memoryOverheadFactor="-1"),
        False,
    ),
    "Spark with an invalid size among the settings": (
        "sparkapp",
        spark({"spark.executor.pyspark.memory": "?"}),
        False,
    ),
    "Spark with an invalid factor among the settings": (
        "sparkapp",
        spark({"spark.driver.memoryOverheadFactor": "x"}),
        False,
    ),
    "Spark with an invalid number": (
        "sparkapp",
        spark(
            {"spark.dynamicAllocation.enabled": "true"}
            | {"spark.dynamicAllocation.minExecutors": "few"}
        ),
        False,
    ),
}


@pytest.mark.parametrize(("key", "body", "want"), SURVIVE.values(), ids=SURVIVE.keys())
def test_only_jobs_that_survive_a_suspension_are_held(
    plane: ControlPlane, key: str, body: Json, want: bool
) -> None:
    assert (ADAPTERS[key].why_not_suspendable(decoded(key, body)) == "") is want
    assert is_held(plane, key, body) is want


def test_the_kinds_of_these_cases_are_those_with_conditions() -> None:
    marks = ("matches(", "shutdownAfterJobFinishes")
    keys = {
        name.removeprefix("can-be-held-if-")
        for name, expression in conditions().items()
        if any(mark in expression for mark in marks)
    }
    assert keys == {key for key, _, _ in SURVIVE.values()}


# ------------------------------------------------------------------------- kinds that are declared


def widget(labels: Json = QUEUE, **spec: Json) -> Json:
    """Return a Widget with one leader and three workers; None removes a field."""
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    full: Json = {"leader": template, "workers": {"count": 3, "pod": template}}
    kept = {name: value for name, value in {**full, **spec}.items() if value is not None}
    body = {"apiVersion": WIDGET["apiVersion"], "kind": WIDGET["kind"], "spec": kept}
    return {**body, "metadata": {"generateName": "w-", "labels": labels}}


def created_widget(plane: ControlPlane, body: Json) -> Json:
    """Return a Widget as it would be stored."""
    path = f"/apis/example.com/v1/namespaces/{PLAIN}/widgets?dryRun=All"
    return plane.client_for().request("POST", path, body)


WIDGETS: Final = {
    "with all that is declared": (widget(), True),
    "with the map around the switch": (widget(policy={"other": 1}), True),
    "with a switch that is off": (widget(policy={"suspend": False}), True),
    "without a number of workers": (widget(workers={"pod": {"spec": {}}}), True),
    "without workers": (widget(workers=None), False),
    "without a leader": (widget(leader=None), False),
    "with a leader that is not a template": (widget(leader="none"), False),
    "with a negative number": (
        widget(workers={"count": -1, "pod": {"spec": {}}}),
        False,
    ),
    "with a number that is a string": (widget(workers={"count": "3", "pod": {"spec": {}}}), False),
}


@pytest.mark.parametrize(("body", "want"), WIDGETS.values(), ids=WIDGETS.keys())
def test_a_declared_kind_is_held_where_its_pods_can_be_read(
    plane: ControlPlane, body: Json, want: bool
) -> None:
    adapter = DeclaredAdapter(msgspec.convert(WIDGET, DeclaredKind))
    assert (adapter.why_not_suspendable(msgspec.convert(body, DeclaredJob)) == "") is want
    made = created_widget(plane, body)
    assert (value_at(made, ("spec", "policy", "suspend")) is True) is want
    assert value_at(made, ("spec", "policy", "other")) == value_at(
        body, ("spec", "policy", "other")
    )


def test_a_widget_that_is_not_the_queues_is_left_alone(plane: ControlPlane) -> None:
    made = created_widget(plane, widget(labels={}))
    assert "policy" not in made["spec"]


def test_a_job_whose_switch_cannot_be_set_is_created_unchanged(plane: ControlPlane) -> None:
    made = created_widget(plane, widget(policy="none"))
    assert made["spec"]["policy"] == "none"


# -------------------------------------------------------------------- when the server is not ready


def test_unmanaged_jobs_are_created_while_the_server_starts(
    plane: ControlPlane,
) -> None:
    """For seconds after its start the server refuses all objects that reach a mutation.

    So objects that no policy holds must not reach one.
    """
    plane.restart_api_server()
    for key in SERVED:
        assert not is_held(plane, key, body_of(key))
        nested = body_of(key, labels=QUEUE, ownerReferences=[{**OWNER, "kind": "JobSet"}])
        assert not is_held(plane, key, nested)
    await_policies(plane, *SERVED)


# ------------------------------------------------------------------------------- of namespaces


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        ({"koord-queue/managed": "true"}, True),
        ({"kube-queue/managed": "true"}, True),
        ({"koord-queue/managed": "false"}, False),
        ({"koord-queue/managed": "false", "kube-queue/managed": "true"}, False),
    ],
)
def test_which_labels_of_a_namespace_count(
    plane: ControlPlane, labels: dict[str, str], want: bool
) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace"}
    made = {**namespace, "metadata": {"generateName": "team-", "labels": labels}}
    name = plane.client_for().request("POST", "/api/v1/namespaces", made)["metadata"]["name"]
    assert is_held(plane, "tfjob", body_of("tfjob"), name) is want


# ----------------------------------------------------------------------- where there is no Kueue


@pytest.mark.parametrize(
    "said", [{}, {"leaveToKueue": False}], ids=["none is served", "the value says so"]
)
def test_a_job_with_the_label_of_kueue_is_held_where_it_is_not_left_to_kueue(
    plane: ControlPlane, said: Json
) -> None:
    label = {"kueue.x-k8s.io/queue-name": "k"}

    def held() -> set[bool]:
        return {
            is_held(plane, key, body_of(key, labels=labels), namespace)
            for labels, namespace in (({**QUEUE, **label}, PLAIN), (label, MANAGED))
            for key in EACH_WAY
        }

    config = {"kinds": [WIDGET], **said}
    police(plane, values_with(*SWITCHES, controllers={"config": config}))
    until(lambda: held() == {True})
    police(plane, ALL)
    until(lambda: held() == {False})


# ------------------------------------------------------------- kinds that come and go by their CRD


def test_the_other_mpi_job_is_held_by_the_same_value(plane: ControlPlane) -> None:
    plane.kubectl("delete", "customresourcedefinition", "mpijobs.kubeflow.org")
    install(plane, "mpijobv1")
    await_policies(plane, "mpijobv1")
    body = body_of("mpijobv1", labels=QUEUE)
    set_at(body, ("spec", "runPolicy", "managedBy"), value="kubeflow.org/training-operator")
    assert is_held(plane, "mpijobv1", body)
    assert not is_held(plane, "mpijobv1", body_of("mpijobv1"))


def test_an_older_version_of_a_kind_is_held_too(plane: ControlPlane) -> None:
    body = body_of("rayjob", labels=QUEUE)
    body["apiVersion"] = "ray.io/v1alpha1"
    path = f"/apis/ray.io/v1alpha1/namespaces/{PLAIN}/rayjobs?dryRun=All"
    assert plane.client_for().request("POST", path, body)["spec"]["suspend"] is True
