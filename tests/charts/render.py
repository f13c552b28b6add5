"""What the chart installs, rendered by the real helm.

    render({"scheduler": {"replicas": 2}})     the objects, in helm's order
    render_notes({...})                        what an installation prints
    rights("scheduler", user="ann")            the roles of one program, bound to a test user

Without helm, a test that needs it is skipped, or fails if CI=true.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from shared_api.program_flags import check_keys
from tests.controlplane.binaries import chosen_kubernetes, mutating_policy_version
from tests.controlplane.helm import require_helm
from tests.required_tools import require

CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "koord-queue"
RELEASE: Final = "koord-queue"
NAMESPACE: Final = "koord-queue"
HELM_SECONDS: Final = 60.0

POLICY_V1: Final = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
GUARD_V1: Final = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
POLICY_V1BETA1: Final = "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"
SERVED: Final = (POLICY_V1 if mutating_policy_version() == "v1" else POLICY_V1BETA1, GUARD_V1)
KUBE_VERSION: Final = chosen_kubernetes().removeprefix("v")

Json = Any
Values = Mapping[str, Any]
Program = Literal["scheduler", "controllers"]


class HelmFailed(Exception):
    """Helm ended with a status other than 0; the message is its stderr."""


Helm = Callable[[], Path]
"""Finds a helm: `require_helm` or `require_helm_3`."""


def helm_binary(helm: Helm = require_helm) -> Path:
    """Return the helm to run; ends the test if there is none."""
    return require(helm, "helm")


def run_helm(
    *arguments: str,
    values: Values | None = None,
    kubeconfig: Path | None = None,
    helm: Helm = require_helm,
) -> str:
    """Run helm and return its stdout; values are merged over the chart's own.

    Raises:
        HelmFailed: It ended with a status other than 0.
    """
    given = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [helm_binary(helm), *arguments, *given],
        input=None if values is None else json.dumps(values),
        capture_output=True,
        text=True,
        timeout=HELM_SECONDS,
        check=False,
        # No cluster except the one that a test names.
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": "/nonexistent",
            "KUBECONFIG": str(kubeconfig or os.devnull),
        },
    )
    if done.returncode != 0:
        raise HelmFailed(done.stderr.strip())
    return done.stdout


def render(
    values: Values | None = None,
    *,
    api_versions: Sequence[str] = SERVED,
    release: str = RELEASE,
    namespace: str = NAMESPACE,
    kube_version: str = KUBE_VERSION,
    helm: Helm = require_helm,
) -> list[Json]:
    """Return the objects that an installation creates.

    The same arguments return the same objects: copy them before a change.

    Args:
        values: merged over the chart's own.
        api_versions: what the cluster serves in addition to the default; without it, what the
            real control plane of the tests serves.
        release: the name of the release.
        namespace: the namespace of the release.
        kube_version: the version of the cluster.
        helm: the helm that renders it.

    Raises:
        HelmFailed: The schema or the chart refuses the values; the message has the reason.
    """
    key = json.dumps(values or {}, sort_keys=True)
    return _rendered(key, tuple(api_versions), release, namespace, kube_version, helm)


@functools.cache
def _rendered(
    values: str,
    api_versions: tuple[str, ...],
    release: str,
    namespace: str,
    kube_version: str,
    helm: Helm,
) -> list[Json]:
    served = [f"--api-versions={one}" for one in api_versions]
    where = [f"--namespace={namespace}", f"--kube-version={kube_version}"]
    arguments = ("template", release, str(CHART), *where, *served)
    text = run_helm(*arguments, values=json.loads(values), helm=helm)
    return [one for one in yaml.load_all(text, Loader=StrictLoader) if one is not None]


def render_notes(
    values: Values | None = None, *, release: str = RELEASE, namespace: str = NAMESPACE
) -> str:
    """Return the notes of an installation into a cluster that serves no admission policies."""
    where = [f"--namespace={namespace}", "--dry-run=client", "--output=json"]
    answer = run_helm("install", release, str(CHART), *where, values=values or {})
    notes: str = json.loads(answer)["info"]["notes"]
    return notes


# -------------------------------------------------------------------------- finding objects


def of_kind(objects: Iterable[Json], kind: str) -> dict[str, Json]:
    """Return the objects of one kind, by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def rights(
    program: Program,
    *,
    user: str,
    values: Values | None = None,
    namespace: str = NAMESPACE,
) -> list[Json]:
    """Return the ClusterRole and Role of one program, with bindings to a user.

    For a test that runs the program with that user's token: it then has exactly the rights of the
    program's service account. The namespace must exist before they are applied.

    Args:
        program: the program with the roles.
        user: a user of the test's API server that replaces the service account.
        values: values of the chart, on which some rules depend (metrics.secure, debugApi.expose
            ...).
        namespace: the namespace of the release, with leases and queues.
    """
    objects = render(values, namespace=namespace)
    account = of_kind(objects, "Deployment")[_deployment_of(program)]["spec"]["template"]["spec"][
        "serviceAccountName"
    ]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    bindings = [copy.deepcopy(one) for one in objects if subject in one.get("subjects", ())]
    wanted = {(one["roleRef"]["kind"], one["roleRef"]["name"]) for one in bindings}
    roles = [one for one in objects if (one["kind"], one["metadata"]["name"]) in wanted]
    for binding in bindings:
        binding["subjects"] = [
            {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        ]
    return [*roles, *bindings]


def rules_of(objects: Iterable[Json], kind: str, name: str) -> list[Json]:
    """Return the rules of a Role or ClusterRole."""
    rules: list[Json] = of_kind(objects, kind)[name]["rules"]
    return rules


def _deployment_of(program: Program) -> str:
    return RELEASE if program == "scheduler" else f"{RELEASE}-controllers"


def as_manifest(objects: Iterable[Json]) -> str:
    """Return the objects as a stream for `kubectl apply --filename -`."""
    return yaml.safe_dump_all(objects, sort_keys=False)


class StrictLoader(yaml.CSafeLoader):
    """Refuses duplicate keys; based on the C loader, since the rendered text is long."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT002 - the base class's signature
        """Return a map, after a check that its keys differ."""
        check_keys(node)
        return super().construct_mapping(node, deep)
