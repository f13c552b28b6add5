"""Releases of the chart in a cluster: other names, a second one, what kubectl has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.charts.render import CHART, Helm, HelmFailed, run_helm
from tests.controlplane.control_plane import ControlPlane
from tests.controlplane.helm import require_helm, require_helm_3

Json = Any

HELMS: Final[dict[str, Helm]] = {"helm 3": require_helm_3, "helm 4": require_helm}
UNIT: Final[Json] = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "QueueUnit",
    "metadata": {"generateName": "kept-", "namespace": "default"},
    "spec": {"request": {"cpu": "1"}, "priority": 0},
}
UNITS: Final = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
BINDINGS: Final = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ENDPOINTS: Final[Json] = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["192.0.2.1"]}],
    "ports": [{"name": "https", "port": 7443, "protocol": "TCP"}],
}


class Release(NamedTuple):
    """A release of the chart."""

    plane: ControlPlane
    helm: Helm
    name: str
    namespace: str

    def run(self, command: str, *arguments: str, values: Json = None) -> str:
        """Run a command of Helm, and return what it says."""
        chart = [] if command == "uninstall" else [str(CHART)]
        return run_helm(
            *(command, self.name, *chart, f"--namespace={self.namespace}", *arguments),
            values=values,
            kubeconfig=self.plane.kubeconfig,
            helm=self.helm,
        )

    def get(self, kind: str, name: str) -> Json:
        """Return an object of its namespace."""
        where = f"--namespace={self.namespace}"
        return json.loads(self.plane.kubectl("get", kind, name, where, "--output=json"))

    def change(self, verb: str, *arguments: str) -> None:
        """Change the scheduler's Deployment as a person does."""
        where = f"--namespace={self.namespace}"
        self.plane.kubectl(verb, "deployment", f"{self.name}-koord-queue", where, *arguments)

    def replicas(self) -> int:
        """Return how many schedulers are wanted."""
        wanted: int = self.get("deployment", f"{self.name}-koord-queue")["spec"]["replicas"]
        return wanted


@pytest.fixture(scope="module")
def plane(controlplane_binaries: Path) -> Iterator[ControlPlane]:
    with ControlPlane(controlplane_binaries) as running:
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        running.client_for().request("POST", slices, ENDPOINTS)
        yield running


@pytest.fixture(scope="module", params=HELMS.values(), ids=list(HELMS))
def night(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Release]:
    """A release with another name and namespace than one that was there before."""
    before = Release(plane, request.param, "koord-queue", "koord-queue")
    before.run("install", "--create-namespace")
    plane.await_kinds("queueunits.scheduling.x-k8s.io")
    plane.client_for().request("POST", UNITS, UNIT)
    before.run("uninstall")
    release = Release(plane, request.param, "night", "batch")
    release.run("install", "--create-namespace", values={"networkPolicy": {"enabled": True}})
    yield release
    release.run("uninstall")
    for unit in plane.client_for().request("GET", UNITS)["items"]:
        plane.client_for().request("DELETE", f"{UNITS}/{unit['metadata']['name']}")


def test_another_name_and_namespace_over_kept_crds(night: Release) -> None:
    for suffix in ("", "-controllers"):
        deployment = night.get("deployment", f"night-koord-queue{suffix}")
        pod = deployment["spec"]["template"]["spec"]
        arguments = pod["containers"][0]["args"]
        assert "--queue-namespace=batch" in arguments
        assert "--leader-elect-lease-namespace=batch" in arguments
        night.get("serviceaccount", pod["serviceAccountName"])
    ask = night.plane.client_for().request
    names = [each["metadata"]["name"] for each in ask("GET", BINDINGS)["items"]]
    assert [name for name in names if name.startswith("koord-queue")] == []
    assert [each["spec"] for each in ask("GET", UNITS)["items"]] == [UNIT["spec"]]


@pytest.mark.parametrize(
    ("name", "namespace"),
    [("day", "other"), ("day", "batch"), ("night", "other")],
    ids=["another one", "in the same namespace", "of the same name"],
)
def test_a_second_installation_is_refused(night: Release, name: str, namespace: str) -> None:
    second = Release(night.plane, night.helm, name, namespace)
    with pytest.raises(HelmFailed, match="release night in namespace batch runs") as refused:
        second.run("install", "--create-namespace")
    assert "helm uninstall night --namespace batch" in str(refused.value)


def test_a_shadow_is_no_second_installation(night: Release) -> None:
    shadow = Release(night.plane, night.helm, "watcher", "watch")
    shadow.run("install", "--create-namespace", values={"shadow": {"enabled": True}})
    try:
        night.run("upgrade")
    finally:
        shadow.run("uninstall")


def test_policies_know_the_port_of_this_clusters_api_server(night: Release) -> None:
    to_api_server, _ = night.get("networkpolicy", "night-koord-queue")["spec"]["egress"]
    assert [each["port"] for each in to_api_server["ports"]] == [443, 6443, 7443]


def test_an_upgrade_sets_what_kubectl_has_scaled(night: Release) -> None:
    night.change("scale", "--replicas=0")
    assert night.replicas() == 0
    night.run("upgrade")
    assert night.replicas() == 1


def test_an_upgrade_sets_what_kubectl_has_edited_with_helm_4_if_it_is_forced(
    night: Release,
) -> None:
    night.change("patch", '--patch={"spec": {"replicas": 2}}')
    if night.helm is require_helm:
        with pytest.raises(HelmFailed, match=r'conflict with "kubectl-patch".*\.spec\.replicas'):
            night.run("upgrade")
        assert night.replicas() == 2
        night.run("upgrade", "--force-conflicts")
    else:
        night.run("upgrade")
    assert night.replicas() == 1
