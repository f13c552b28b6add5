"""What the chart installs, rendered by the real helm.

    render({"scheduler": {"replicas": 2}})     the objects, in helm's order
    render_notes({...})                        what an installation prints
    rights("scheduler", user="ann")            the roles of one program, bound to a test user

A machine without helm skips the test that asks, or fails it under CI=true.
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

import pytest
import yaml

from shared_api.program_flags import check_keys
from tests.controlplane.helm import require_helm
from tests.controlplane.tool_cache import BinariesUnavailable

CHART: Final = Path(__file__).resolve().parents[2] / "charts" / "koord-queue"
RELEASE: Final = "koord-queue"
NAMESPACE: Final = "koord-queue"
HELM_SECONDS: Final = 60.0

POLICY_V1: Final = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
GUARD_V1: Final = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
POLICY_V1BETA1: Final = "admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"

Json = Any
Values = Mapping[str, Any]
Program = Literal["scheduler", "controllers"]


class HelmFailed(Exception):
    """Helm ended with a status other than 0; the message is what it wrote to stderr."""


Helm = Callable[[], Path]
"""Finds a helm: `require_helm` or `require_helm_3`."""


def helm_binary(helm: Helm = require_helm) -> Path:
    """The helm to run; ends the test that asks when there is none."""
    try:
        return helm()
    except BinariesUnavailable as error:
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"helm is not optional in CI: {error}", pytrace=False)
        pytest.skip(f"needs helm: {error}")


def run_helm(
    *arguments: str,
    values: Values | None = None,
    kubeconfig: Path | None = None,
    helm: Helm = require_helm,
) -> str:
    """Runs helm and returns its stdout; values go in as a file over the chart's own.

    Raises:
        HelmFailed: it ended with a status other than 0.
    """
    given = ["--values", "-"] if values is not None else []
    done = subprocess.run(
        [helm_binary(helm), *arguments, *given],
        input=None if values is None else json.dumps(values),
        capture_output=True,
        text=True,
        timeout=HELM_SECONDS,
        check=False,
        # No cluster but the one that a test names.
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
    api_versions: Sequence[str] = (POLICY_V1, GUARD_V1),
    release: str = RELEASE,
    namespace: str = NAMESPACE,
    kube_version: str = "1.36.3",
    helm: Helm = require_helm,
) -> list[Json]:
    """The objects that an installation creates.

    Asked the same again, it returns the same objects: copy what is to be changed.

    Args:
        values: over the chart's own.
        api_versions: what the cluster serves besides what every one does.
        release: its name.
        namespace: where it is installed.
        kube_version: what the cluster calls itself.
        helm: which helm renders it.

    Raises:
        HelmFailed: the values do not fit, or the chart refuses them; the message says why.
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
    """What is printed after an installation into a cluster that serves no admission policies."""
    where = [f"--namespace={namespace}", "--dry-run=client", "--output=json"]
    answer = run_helm("install", release, str(CHART), *where, values=values or {})
    notes: str = json.loads(answer)["info"]["notes"]
    return notes


# -------------------------------------------------------------------------- finding objects


def of_kind(objects: Iterable[Json], kind: str) -> dict[str, Json]:
    """The objects of one kind, by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def rights(
    program: Program,
    *,
    user: str,
    values: Values | None = None,
    namespace: str = NAMESPACE,
) -> list[Json]:
    """The ClusterRole and Role of one program and their bindings, given to a user.

    For a test that runs the program with that user's token: what it may do is exactly what the
    chart lets its service account do. The namespace must exist before they are applied.

    Args:
        program: whose roles.
        user: a user of the test's API server, in place of the service account.
        values: of the chart; they decide about some rules (metrics.secure, debugApi.expose ...).
        namespace: the release's, where leases and queues are.
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
    """The rules of a Role or ClusterRole."""
    rules: list[Json] = of_kind(objects, kind)[name]["rules"]
    return rules


def _deployment_of(program: Program) -> str:
    return RELEASE if program == "scheduler" else f"{RELEASE}-controllers"


def as_manifest(objects: Iterable[Json]) -> str:
    """The objects as a stream for `kubectl apply --filename -`."""
    return yaml.safe_dump_all(objects, sort_keys=False)


class StrictLoader(yaml.CSafeLoader):
    """Refuses a key that is given twice; in C, since what is rendered is long."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT002 - the base class's signature
        """A map, once its keys are known to differ."""
        check_keys(node)
        return super().construct_mapping(node, deep)
