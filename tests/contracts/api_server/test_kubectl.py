"""A real kubectl against the fake server over HTTP, and the same commands against a real server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from tests.contracts.api_server.server_under_test import (
    CRDS,
    EVENTUALLY_SECONDS,
    fake_over_http,
    real_server,
)
from tests.waiting import until

WAITS = f"--timeout={EVENTUALLY_SECONDS:.0f}s"
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  suspend: true
  parallelism: 1
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: image}]}
"""
CLAIMS = """
apiVersion: conformance.example.com/v1alpha1
kind: Claim
metadata: {name: one}
spec: {queue: aa, priority: 5}
---
apiVersion: conformance.example.com/v1alpha1
kind: Claim
metadata: {name: two}
spec: {queue: bb}
"""
EVENT = """
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: happened}
eventTime: "2026-11-01T10:00:00.000000Z"
reportingController: example.com/queue
reportingInstance: queue-0
action: Dequeue
reason: Dequeued
type: Normal
note: it fits
regarding: {kind: Claim, name: one, namespace: default}
"""


@dataclass(frozen=True)
class Kubectl:
    """kubectl, and the server that it talks to."""

    binary: Path
    options: tuple[str, ...]
    home: Path
    is_fake: bool = False

    def __call__(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run it, and return its output (stderr if it is expected to fail)."""
        done = subprocess.run(
            [self.binary, *self.options, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * EVENTUALLY_SECONDS,
            check=False,
            env={**os.environ, "HOME": str(self.home), "KUBECONFIG": ""},
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    def table(self, *arguments: str) -> list[list[str]]:
        """Run it, and return the words of each line, with every age as AGE."""
        lines = self(*arguments).splitlines()
        return [re.sub(r"\b\d+[smh]\b|\b\d+m\d+s\b", "AGE", line).split() for line in lines]


@contextmanager
def started(kind: str, binaries: Path, home: Path) -> Iterator[Kubectl]:
    """One of the servers, with the suite's kinds."""
    if kind == "fake":
        with fake_over_http() as server:
            yield Kubectl(binaries / "kubectl", ("--server", server.url), home, is_fake=True)
    else:
        with real_server(binaries) as server:
            options = ("--server", server.url, "--token", server.token)
            trust = ("--certificate-authority", str(server.ca_file))
            yield Kubectl(binaries / "kubectl", (*options, *trust), home)


@pytest.fixture(scope="module", params=["fake", "real"])
def kubectl(
    request: pytest.FixtureRequest,
    controlplane_binaries: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kubectl]:
    """Kubectl with some objects to look at."""
    home = tmp_path_factory.mktemp("home")
    with started(request.param, controlplane_binaries, home) as kubectl:
        kubectl("apply", "-f", str(CRDS))
        for crd in ("claims", "plains"):
            name = f"crd/{crd}.conformance.example.com"
            kubectl("wait", "--for=condition=Established", WAITS, name)
        # Established is reported a moment before the kind is in discovery.
        kinds = {"claims", "plains"}
        until(lambda: kinds <= set(kubectl("api-resources").split()), EVENTUALLY_SECONDS)
        kubectl("apply", "-f", "-", stdin=CLAIMS)
        kubectl("create", "-f", "-", stdin=EVENT)
        yield kubectl


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("claims", id="plural"),
        pytest.param("claim", id="singular"),
        pytest.param("cl", id="short name"),
        pytest.param("claims.conformance.example.com", id="with its group"),
        pytest.param("conformance", id="category"),
    ],
)
def test_get(kubectl: Kubectl, name: str) -> None:
    assert kubectl.table("get", name) == [
        ["NAME", "QUEUE", "PRIORITY", "PHASE", "AGE"],
        ["one", "aa", "5", "Enqueued", "AGE"],
        ["two", "bb", "Enqueued", "AGE"],
    ]


def test_get_wide_in_all_namespaces(kubectl: Kubectl) -> None:
    assert kubectl.table("get", "claims", "-A", "-o", "wide")[:2] == [
        ["NAMESPACE", "NAME", "QUEUE", "PRIORITY", "PHASE", "AGE", "MESSAGE"],
        ["default", "one", "aa", "5", "Enqueued", "AGE"],
    ]


def test_get_by_selectors(kubectl: Kubectl) -> None:
    assert len(kubectl.table("get", "claims", "--field-selector", "spec.queue=bb")) == 2
    kubectl("label", "claim", "one", "team=a", "--overwrite")
    assert len(kubectl.table("get", "claims", "-l", "team in (a)")) == 2


def test_get_as_yaml_and_json_path(kubectl: Kubectl) -> None:
    assert "kind: Claim\n" in kubectl("get", "claim", "one", "-o", "yaml")
    assert kubectl("get", "claim", "one", "-o", "jsonpath={.spec.queue}") == "aa"
    found = msgspec.json.decode(kubectl("get", "claims", "-o", "json"))
    assert [item["kind"] for item in found["items"]] == ["Claim", "Claim"]


def test_events_and_describe(kubectl: Kubectl) -> None:
    (_, shown) = kubectl.table("get", "events", "--field-selector", "reason=Dequeued")
    assert shown[1:] == ["Normal", "Dequeued", "claim/one", "it", "fits"]
    assert "Queue:" in kubectl("describe", "claim", "one")


def test_apply_change_and_delete(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=JOB) == "job.batch/work created\n"
    assert kubectl("apply", "-f", "-", stdin=JOB) == "job.batch/work unchanged\n"
    changed = JOB.replace("parallelism: 1", "parallelism: 2")
    assert kubectl("apply", "-f", "-", stdin=changed) == "job.batch/work configured\n"
    header, row = kubectl.table("get", "jobs")
    assert header == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    # Its status is Running until the real Job controller has seen that it is suspended.
    assert (row[0], row[2:]) == ("work", ["0/1", "of", "2", "AGE"])
    wrong = JOB.replace("image: image", "image: other")
    assert "field is immutable" in kubectl("apply", "-f", "-", stdin=wrong, fails=True)
    assert "Suspend:" in kubectl("describe", "job", "work")
    assert "deleted" in kubectl("delete", "-f", "-", stdin=JOB)
    assert kubectl("get", "jobs", "-o", "name") == ""


def test_a_list_is_applied(kubectl: Kubectl) -> None:
    items = [msgspec.yaml.decode(text) for text in (JOB, EVENT.replace("happened", "again"))]
    manifest = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}).decode()
    assert kubectl("apply", "-f", "-", stdin=manifest).splitlines() == [
        "job.batch/work created",
        "event.events.k8s.io/again created",
    ]
    kubectl("delete", "-f", "-", stdin=manifest)


def test_explain_shows_the_descriptions_of_a_crd(kubectl: Kubectl) -> None:
    shown = kubectl.table("explain", "claim.spec")
    assert ["FIELD:", "spec", "<Object>"] in shown
    assert ["queue", "<string>", "-required-"] in shown
    fields = {line[0] for line in kubectl.table("explain", "claim") if len(line) > 1}
    assert {"apiVersion", "kind", "metadata", "spec", "status"} <= fields


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "job", "made", "--image=image"),
        ("create", "namespace", "made"),
        ("auth", "can-i", "get", "pods"),
    ],
    ids=" ".join,
)
def test_what_kubectl_sends_in_protobuf(kubectl: Kubectl, arguments: tuple[str, ...]) -> None:
    if not kubectl.is_fake:
        kubectl(*arguments, *(() if arguments[0] == "auth" else ("--dry-run=server",)))
        return
    got = kubectl(*arguments, fails=True)
    assert "--dry-run=client -o yaml | kubectl apply -f -" in got
    if arguments[0] == "create":
        manifest = kubectl(*arguments, "--dry-run=client", "-o", "yaml")
        assert "made created" in kubectl("apply", "-f", "-", stdin=manifest)
        kubectl("delete", "-f", "-", stdin=manifest)


def test_a_typo_is_reported(kubectl: Kubectl) -> None:
    typo = CLAIMS.partition("---")[0].replace("priority", "prioriti")
    got = kubectl("apply", "-f", "-", stdin=typo, fails=True)
    assert 'unknown field "spec.prioriti"' in got
    bad = CLAIMS.partition("---")[0].replace("priority: 5", "priority: 101")
    got = kubectl("apply", "-f", "-", stdin=bad, fails=True)
    assert "spec.priority" in got
    assert "less than or equal to 100" in got


def test_patch_edits_an_object(kubectl: Kubectl) -> None:
    patch = '{"spec": {"queue": "cc"}}'
    kubectl("patch", "claim", "two", "--type", "merge", "-p", patch)
    assert kubectl("get", "claim", "two", "-o", "jsonpath={.spec.queue}") == "cc"
    kubectl("patch", "claim", "two", "--type", "merge", "-p", '{"spec": {"queue": "bb"}}')


def test_namespaces_are_created_and_deleted(kubectl: Kubectl) -> None:
    body = '{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "short-lived"}}'
    kubectl("create", "-f", "-", stdin=body)
    assert ["short-lived", "Active", "AGE"] in kubectl.table("get", "namespaces")
    kubectl("delete", "namespace", "short-lived", WAITS)
    assert "short-lived" not in kubectl("get", "ns")


def test_a_watch_shows_changes(kubectl: Kubectl) -> None:
    arguments = [str(kubectl.binary), *kubectl.options, "get", "claims", "-A", "-w"]
    environment = {**os.environ, "HOME": str(kubectl.home), "KUBECONFIG": ""}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as shown:
        assert shown.stdout is not None
        for _ in range(3):
            shown.stdout.readline()
        patch = '{"status": {"phase": "Running"}}'
        kubectl("patch", "claim", "two", "--subresource=status", "--type=merge", "-p", patch)
        assert shown.stdout.readline().split()[:4] == ["default", "two", "bb", "Running"]
        shown.kill()
    patch = '{"status": {"phase": "Enqueued"}}'
    kubectl("patch", "claim", "two", "--subresource=status", "--type=merge", "-p", patch)
