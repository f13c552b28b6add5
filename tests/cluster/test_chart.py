"""The chart on a real API server: what it renders is accepted and works."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared_api.crds import DEFINITIONS
from tests.charts.render import (
    CHART,
    NAMESPACE,
    Helm,
    HelmFailed,
    as_manifest,
    of_kind,
    render,
    rights,
    run_helm,
)
from tests.charts.values_table import VALUES
from tests.cluster.crd_kit import CRDS
from tests.cluster.queue_world import ELASTIC_QUOTA_CRD
from tests.cluster.rbac_objects import binding
from tests.controlplane.api_client import ApiError
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.helm import require_helm, require_helm_3
from tests.waiting import PATIENCE_SECONDS, until, within

QUEUE_API = "/apis/scheduling.x-k8s.io/v1alpha1"
# A release's Secret may have 1,048,576 bytes; half of it leaves room for years of templates.
MOST_RELEASE_BYTES = 500_000
OUR_KINDS = tuple(f"{each.plural}.scheduling.x-k8s.io" for each in DEFINITIONS)
POLICIES = "quotapolicies.scheduling.x-k8s.io"
ANN, BEN = "ann", "ben"
USERS = {"view": "vera", "edit": "ed", "admin": "ada"}
"""Each has the role of the cluster of that name in one namespace."""

Json = Any


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    users: dict[str, list[str]] = {user: [] for user in (ANN, BEN, *USERS.values())}
    with ControlPlane(controlplane_binaries, controller_manager=True, users=users) as running:
        running.apply(CRDS)
        for namespace in (NAMESPACE, "team-a", "ops", "monitoring"):
            running.kubectl("create", "namespace", namespace)
        running.await_kinds(*OUR_KINDS)
        yield running


# ----------------------------------------------------------------------------------- accepted


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_everything_is_accepted_strictly(plane: ControlPlane, values: Json) -> None:
    # The Prometheus operator's CRDs are not here.
    of_operator = {"ServiceMonitor", "PrometheusRule"}
    objects = [one for one in render(values) if one["kind"] not in of_operator]
    answer = plane.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"),
        *("--filename", "-"),
        input=as_manifest(objects),
    )
    assert answer.count("(server dry run)") == len(objects)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_pods_run_where_only_restricted_ones_may(plane: ControlPlane, values: Json) -> None:
    _restrict(plane, "locked")
    path = "/api/v1/namespaces/locked/pods?dryRun=All&fieldValidation=Strict"
    for name, deployment in of_kind(render(values), "Deployment").items():
        spec = deployment["spec"]["template"]["spec"]
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        plane.client_for().request("POST", path, {**body, "spec": _without_class(spec)})


def test_a_pod_that_is_not_restricted_is_refused_there(plane: ControlPlane) -> None:
    _restrict(plane, "locked")
    spec = {"containers": [{"name": "c", "image": "i"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        plane.client_for().request("POST", "/api/v1/namespaces/locked/pods?dryRun=All", body)


def _restrict(plane: ControlPlane, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    body["metadata"]["labels"] = labels  # type: ignore[index]  # a JSON object, built in two steps
    plane.kubectl("apply", "--filename", "-", input=json.dumps(body))


def _without_class(spec: Json) -> Json:
    """Return a pod's spec without its priority class, which a server looks up at once."""
    return {key: one for key, one in spec.items() if key != "priorityClassName"}


def test_the_examples_in_the_catalogue_are_accepted(plane: ControlPlane) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    examples = yaml.safe_load(chart["annotations"]["artifacthub.io/crdsExamples"])
    answer = plane.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", "-"),
        input=as_manifest(examples),
    )
    assert answer.count("(server dry run)") == 2


# ------------------------------------------------------------------------------------- rights


LEASES = "leases.coordination.k8s.io"
RIGHTS = (
    (ANN, "team-a", "watch", "queueunits", True),
    (ANN, "team-a", "patch", "queueunits/status", True),
    (ANN, "team-a", "patch", "queueunits", False),
    (ANN, "team-a", "delete", "queueunits", False),
    (ANN, NAMESPACE, "create", "queues", True),
    (ANN, NAMESPACE, "patch", "queues/status", True),
    (ANN, "team-a", "list", "queues", False),
    (ANN, NAMESPACE, "watch", POLICIES, True),
    (ANN, NAMESPACE, "patch", f"{POLICIES}/status", True),
    (ANN, NAMESPACE, "patch", POLICIES, False),
    (ANN, NAMESPACE, "delete", POLICIES, False),
    (ANN, "team-a", "list", POLICIES, False),
    (BEN, NAMESPACE, "list", POLICIES, False),
    (ANN, NAMESPACE, "create", LEASES, True),
    (ANN, NAMESPACE, "patch", f"{LEASES}/koord-queue-scheduler", True),
    (ANN, NAMESPACE, "patch", f"{LEASES}/koord-queue-controllers", False),
    (ANN, "team-a", "create", LEASES, False),
    (ANN, "team-a", "patch", "jobs.batch", False),
    (ANN, NAMESPACE, "get", "secrets", False),
    (ANN, "team-a", "create", "events.events.k8s.io", True),
    (BEN, "team-a", "patch", "jobs.batch", True),
    (BEN, "team-a", "delete", "jobs.batch", False),
    (BEN, "team-a", "create", "queueunits", True),
    (BEN, "team-a", "patch", "queueunits/status", True),
    (BEN, NAMESPACE, "patch", f"{LEASES}/koord-queue-controllers", True),
    (BEN, NAMESPACE, "create", "queues", False),
    (BEN, NAMESPACE, "get", "nodes", False),
    (BEN, "team-a", "delete", "pods", False),
    (BEN, NAMESPACE, "get", "secrets", False),
)


@pytest.fixture(scope="module")
def bound(plane: ControlPlane) -> ControlPlane:
    """Ann has the rights of the scheduler, Ben those of the controllers."""
    objects = [*rights("scheduler", user=ANN), *rights("controllers", user=BEN)]
    plane.kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(objects))
    # The server's authorizer learns of each role and binding by a watch.
    given = [asked for *asked, is_given in RIGHTS if is_given]
    until(lambda: all(_may(plane, *map(str, asked)) for asked in given))
    return plane


@pytest.mark.parametrize(("user", "namespace", "verb", "resource", "want"), RIGHTS)
def test_a_program_has_exactly_the_rights_that_it_needs(
    bound: ControlPlane, user: str, namespace: str, verb: str, resource: str, want: bool
) -> None:
    assert _may(bound, user, namespace, verb, resource) == want


def _may(plane: ControlPlane, user: str, namespace: str, verb: str, resource: str) -> bool:
    kind, _, rest = resource.partition("/")
    plural, _, group = kind.partition(".")
    attributes = {"namespace": namespace, "verb": verb, "resource": plural}
    attributes["group"] = group or ("scheduling.x-k8s.io" if plural.startswith("queue") else "")
    attributes["subresource" if rest == "status" else "name"] = rest
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    allowed: bool = plane.client_for(user).request("POST", path, body)["status"]["allowed"]
    return allowed


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("role", ["view", "edit", "admin"])
def test_the_clusters_user_roles_include_units(
    plane: ControlPlane, role: str, writes: bool
) -> None:
    objects = render({"rbac": {"usersWriteUnits": writes}})
    people = [one for one in objects if "users" in one["metadata"]["labels"].values()]
    plane.kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(people))
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"

    def verbs() -> set[str]:
        rules = plane.client_for().request("GET", path).get("rules") or []
        ours = [rule for rule in rules if "queueunits" in rule.get("resources", ())]
        return {one for rule in ours for one in rule["verbs"]}

    may_write = writes and role != "view"
    until(lambda: "list" in verbs() and ("patch" in verbs()) is may_write)
    assert ({"create", "delete", "update"} <= verbs()) is may_write


OF_USERS = (
    # What it is, and the least role that may do it; "" for none.
    ("list", "queueunits", "view"),
    ("watch", "queues", "view"),
    ("list", POLICIES, "view"),
    ("create", POLICIES, ""),
    ("patch", POLICIES, ""),
    ("delete", POLICIES, ""),
    ("patch", f"{POLICIES}/status", ""),
    ("list", "pendingunits.visibility.koord-queue", "view"),
    ("create", "tries.visibility.koord-queue", "edit"),
    ("create", "queues", "edit"),
    ("patch", "queues", "edit"),
    ("deletecollection", "queues", "admin"),
    ("patch", "queues/status", ""),
    ("create", "queueunits", ""),
    ("patch", "queueunits", ""),
    ("delete", "queueunits", ""),
    ("deletecollection", "queueunits", ""),
    ("patch", "queueunits/status", ""),
    ("release", "queueunits", ""),
    ("patch", "elasticquotas.scheduling.sigs.k8s.io", ""),
    ("create", "reservations.scheduling.koordinator.sh", ""),
)


def test_view_sees_and_edit_changes_nothing_that_decides_what_starts(plane: ControlPlane) -> None:
    values = {"insight": {"enabled": True, "visibility": {"enabled": True}}}
    kinds = {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    objects = [one for one in render(values) if one["kind"] in kinds]
    objects += [binding(role, user, "team-a") for role, user in USERS.items()]
    plane.kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(objects))
    ranks = [*USERS]

    def wrong() -> list[str]:
        """Return what is given to others than wanted."""
        found = []
        for verb, resource, least in OF_USERS:
            want = ranks[ranks.index(least) :] if least else []
            got = [role for role in ranks if _may(plane, USERS[role], "team-a", verb, resource)]
            found += [f"{verb} {resource}: {got}"] if got != want else []
        return found

    within(PATIENCE_SECONDS, lambda: not wrong())
    assert wrong() == []


# --------------------------------------------------------------------- from install to the end


@pytest.mark.parametrize("helm", [require_helm_3, require_helm], ids=["helm 3", "helm 4"])
def test_install_upgrade_uninstall_and_install_again(
    controlplane_binaries: Path, helm: Helm
) -> None:
    with ControlPlane(controlplane_binaries) as plane:
        _helm(plane, "install", "--create-namespace", helm=helm)
        assert _has(plane, "mutatingadmissionpolicy/koord-queue-hold-jobs")
        plane.await_kinds(*OUR_KINDS)
        body = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "Queue"}
        queue = {**body, "metadata": {"name": "kept"}, "spec": {"queuePolicy": "FIFO"}}
        path = f"{QUEUE_API}/namespaces/{NAMESPACE}/queues"
        plane.client_for().request("POST", path, queue)

        _helm(plane, "upgrade", values={"scheduler": {"replicas": 2}}, helm=helm)
        deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/koord-queue"
        assert plane.client_for().request("GET", deployment)["spec"]["replicas"] == 2
        sizes = [len(base64.b64decode(one["data"]["release"])) for one in _releases(plane)]
        assert len(sizes) == 2
        assert max(sizes) < MOST_RELEASE_BYTES

        _uninstall(plane, helm)
        assert not _has(plane, f"deployment/koord-queue --namespace={NAMESPACE}")
        assert plane.client_for().request("GET", f"{path}/kept")["spec"] == queue["spec"]
        _helm(plane, "install", helm=helm)
        assert plane.client_for().request("GET", f"{path}/kept")["spec"] == queue["spec"]


QUOTA = """
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: ElasticQuota
metadata: {name: team-a, namespace: default}
spec: {max: {cpu: 1}}
"""
FORCED = {"helm 3": (), "helm 4": ("--force-conflicts",)}
"""Helm 4 applies server-side: fields that kubectl has set are kubectl's until Helm is forced."""


@pytest.mark.parametrize(("key", "before"), [("helm 3", "kubectl"), ("helm 4", "another release")])
def test_crds_that_existed_before(controlplane_binaries: Path, key: str, before: str) -> None:
    helm = require_helm_3 if key == "helm 3" else require_helm
    with ControlPlane(controlplane_binaries) as plane:
        if before == "kubectl":
            plane.apply(CRDS)
        else:
            _helm(plane, "install", "--create-namespace", helm=helm)
            _uninstall(plane, helm)
        plane.await_kinds(*OUR_KINDS)
        new = ("--create-namespace",) if before == "kubectl" else ()
        # They equal those of the chart: they stay unchanged, and the notes say so.
        plane.apply(ELASTIC_QUOTA_CRD)
        plane.await_kinds("elasticquotas")
        notes = _helm(plane, "install", *new, release="other", helm=helm)
        assert "The CRDs were installed before" in notes
        assert "ElasticQuotas (plugin ElasticQuotaV2): this cluster has none yet." in notes
        plane.kubectl("apply", "--filename", "-", input=QUOTA)
        upgraded = _helm(plane, "upgrade", release="other", helm=helm)
        assert "ElasticQuotas (plugin ElasticQuotaV2): this cluster has 1." in upgraded
        _age(plane)
        refused = r"to this release \((Helm did not install it|it belongs to release koord)"
        with pytest.raises(HelmFailed, match=refused) as failure:
            _helm(plane, "upgrade", release="other", helm=helm)
        assert "--take-ownership" in str(failure.value)
        assert "crds.enabled=false" in str(failure.value)
        _helm(plane, "upgrade", release="other", helm=helm, values={"crds": {"enabled": False}})
        _helm(
            plane,
            *("upgrade", "--take-ownership", *FORCED[key]),
            release="other",
            helm=helm,
            values={"crds": {"takeOwnership": True}},
        )
        _helm(
            plane, "upgrade", release="other", helm=helm
        )  # they belong to the release from now on
        columns = plane.kubectl("get", "crd", OUR_KINDS[0], "--output=yaml")
        assert "name: POLICY" in columns


def _age(plane: ControlPlane) -> None:
    """Make a CRD as an older version may have had it: without its columns."""
    patch = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]
    plane.kubectl("patch", "crd", OUR_KINDS[0], "--type=json", f"--patch={json.dumps(patch)}")


def _helm(
    plane: ControlPlane,
    *arguments: str,
    values: Json = None,
    release: str = "koord-queue",
    helm: Helm = require_helm,
) -> str:
    command, *more = arguments
    return run_helm(
        *(command, release, str(CHART), f"--namespace={NAMESPACE}", *more),
        values=values,
        kubeconfig=plane.kubeconfig,
        helm=helm,
    )


def _uninstall(plane: ControlPlane, helm: Helm) -> None:
    arguments = ("uninstall", "koord-queue", f"--namespace={NAMESPACE}")
    run_helm(*arguments, kubeconfig=plane.kubeconfig, helm=helm)


def _releases(plane: ControlPlane) -> list[Json]:
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets?fieldSelector=type=helm.sh/release.v1"
    items: list[Json] = plane.client_for().request("GET", path)["items"]
    return items


def _has(plane: ControlPlane, what: str) -> bool:
    return bool(plane.kubectl("get", "--ignore-not-found", "--output=name", *what.split()))
