"""What `koord-queue check` and `version` say of an installation on a real cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.timestamps import rfc3339_micro
from tests.charts.render import as_manifest, of_kind, render
from tests.cluster.command_line_kit import (
    CommandLine,
    Printed,
    assert_golden,
    command_line,
    without_styles,
)
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUEUE_NAMESPACE
from tests.cluster.visibility_world import ACCOUNT, VALUES
from tests.waiting import until

Json = dict[str, Any]

NOBODY: Final = ("--as", "nobody", "-n", "default")
TESTER: Final = f"system:serviceaccount:{QUEUE_NAMESPACE}:koord-queue-test"
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{QUEUE_NAMESPACE}/leases"
RBAC: Final = "rbac.authorization.k8s.io"
RELEASE: Final = "koord-queue-release-jobs"
LEFT_OUT: Final = frozenset({"APIService", "CustomResourceDefinition", "Pod", "Service"})
"""What the cluster has already, or what needs an image."""


@pytest.fixture(scope="module")
def cli(controlplane_binaries: Path) -> Iterator[CommandLine]:
    """The chart's objects are installed; pods of the Deployments run, played by kwok."""
    with command_line(controlplane_binaries) as found:
        world = found.world
        world.create_quota("team", cpu_max=4)
        rendered = copy.deepcopy(render(VALUES, namespace=QUEUE_NAMESPACE))
        chart = [one for one in rendered if one["kind"] not in LEFT_OUT]
        for one in chart:
            # The programs of this cluster are users, with the rights of the service accounts.
            one.get("subjects", []).append({"kind": "User", "name": ACCOUNT, "apiGroup": RBAC})
        world.plane.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", input=as_manifest(chart)
        )
        # The controllers hold theirs; this scheduler runs without an election.
        world.api.request("POST", LEASES, lease("koord-queue-scheduler"))
        until(lambda: levels(found.run("check")) == {"ok"}, OWN_TIMES_SECONDS)
        yield found


def lease(name: str) -> Json:
    """Return a Lease that is fresh for an hour."""
    renewed = rfc3339_micro(datetime.now(UTC))
    spec = {"holderIdentity": f"{name}-0", "leaseDurationSeconds": 3600, "renewTime": renewed}
    metadata = {"name": name, "namespace": QUEUE_NAMESPACE}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    return {**body, "metadata": metadata, "spec": spec}


def levels(printed: Printed) -> set[str]:
    """Return the first word of each line."""
    return {line.split()[0] for line in printed.lines}


def test_an_installation_without_problems(cli: CommandLine) -> None:
    printed = cli.run("check")
    assert (printed.code, printed.err) == (0, "")
    assert_golden("check", printed.out)


def test_on_a_terminal_sentences_are_wrapped_and_counted(cli: CommandLine) -> None:
    printed = cli.run_on_terminal("check")
    assert_golden("check-on-a-terminal", without_styles(printed.out))
    assert "\x1b[32mok" in printed.out


def test_who_may_not_look_is_told_which_right_is_missing(cli: CommandLine) -> None:
    printed = cli.run("check", *NOBODY)
    assert not [line for line in printed.lines if line.startswith("problem")]
    assert (printed.code, printed.err) == (0, "")
    assert_golden("check-without-rights", printed.out)


def test_the_account_of_helm_test_may_look_at_all_that_it_is_told_to(cli: CommandLine) -> None:
    pod = of_kind(render(VALUES, namespace=QUEUE_NAMESPACE), "Pod")["koord-queue-test"]
    arguments = pod["spec"]["containers"][0]["args"]
    printed = cli.run(*arguments, "--as", TESTER, "-o", "json")
    found = json.loads(printed.out)["findings"]
    assert printed.code == 0
    assert {each["level"] for each in found} == {"ok"}
    assert {"accounts", "policies", "crds", "leases"} <= {each["check"] for each in found}


def test_the_versions_are_those_here_and_in_the_cluster(cli: CommandLine) -> None:
    assert_golden("version", cli.run("version").out)
    here = cli.run("version", "--client", "-o", "json", more={"KUBECONFIG": "/nonexistent"})
    assert (here.code, here.err) == (0, "")
    assert list(json.loads(here.out)["client"]) == ["version"]
    away = cli.run("version", more={"KUBECONFIG": "/nonexistent"})
    assert away.code == 0
    assert away.err.startswith("note: the versions in the cluster are not known: ")


def test_a_cluster_that_cannot_be_reached_is_an_error(cli: CommandLine) -> None:
    printed = cli.run("check", more={"KUBECONFIG": "/nonexistent"})
    assert printed.code == 1
    assert printed.err.startswith("error: no cluster is configured")


def test_problems_are_named_with_their_mends(cli: CommandLine) -> None:
    """The last test of this file: it breaks the installation."""
    world = cli.world
    kubectl = world.plane.kubectl
    kubectl("delete", "validatingadmissionpolicybinding", RELEASE)
    kubectl("delete", "clusterrolebinding", "koord-queue-controllers")
    in_system = ("-n", QUEUE_NAMESPACE)
    kubectl("delete", "lease", "koord-queue-scheduler", *in_system)
    kubectl("scale", "deployment", "koord-queue", "--replicas=0", *in_system)
    annotations = ("koord-queue/stop-policy=Hold", "koord-queue/max-depth=many")
    kubectl("annotate", "queue", "team", *annotations, *in_system)
    world.create_unit("lost", "none-such", cpu=1)

    def reported() -> str:
        return cli.run("check").out

    want = ("scaled to 0", "may not", "has no effect", "NoQuota", "Stopped", "UnreadableAnnotation")
    until(lambda: [each for each in want if each not in reported()] == [])
    printed = cli.run("check")
    assert printed.code == 1
    assert_golden("check-problems", printed.out)
