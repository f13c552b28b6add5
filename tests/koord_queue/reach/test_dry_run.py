"""Manifests are created, and patches sent, as dry runs; refusals are told, missing rights noted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord_queue.acts.change import Change, On
from koord_queue.cli.targets import Place, Targets
from koord_queue.errors import CommandError
from koord_queue.reach.cluster import Cluster, Query
from koord_queue.reach.dry_run import apply_dry, check_patches, read_manifest
from koord_queue.reach.errors import Conflicting, Missing, Refused
from koord_queue.reach.media_types import MERGE_PATCH
from koord_queue.reach.resources import ELASTIC_QUOTAS

Json = dict[str, Any]

RESOURCES = {
    "/api/v1": [
        {"name": "pods/status", "kind": "Pod", "namespaced": True},
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    ],
    "/apis/scheduling.sigs.k8s.io/v1alpha1": [
        {"name": "elasticquotas", "kind": "ElasticQuota", "namespaced": True}
    ],
    "/apis/batch/v1": [{"name": "jobs", "kind": "Job", "namespaced": True}],
}


class Recorded(Cluster):
    """An API server that returns what it is sent, with a uid."""

    def __init__(
        self, error: CommandError | None = None, webhooks: list[str] | CommandError | None = None
    ) -> None:
        self.asked: list[tuple[str, str, Query]] = []
        self._error = error
        self._webhooks = webhooks

    def get(self, path: str, query: Query = ()) -> bytes:
        if path.endswith("/validatingwebhookconfigurations"):
            if isinstance(self._webhooks, CommandError):
                raise self._webhooks
            rules = [{"resources": self._webhooks or []}]
            return json.dumps({"items": [{"webhooks": [{"rules": rules}]}]}).encode()
        if path not in RESOURCES:
            raise Missing("not found")
        return json.dumps({"resources": RESOURCES[path]}).encode()

    def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "", query: Query = ()
    ) -> bytes:
        self.asked.append((method, path, query))
        if self._error is not None:
            raise self._error
        found: Json = json.loads(body)
        meta = {**found.get("metadata", {}), "uid": "1", "managedFields": []}
        return json.dumps({**found, "metadata": meta}).encode()


MANIFEST = b"""
apiVersion: batch/v1
kind: Job
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: other}}
- {apiVersion: v1, kind: Namespace, metadata: {name: c}}
"""


def test_each_object_is_created_where_it_belongs_and_nothing_for_good() -> None:
    server = Recorded()
    found = json.loads(apply_dry(server, MANIFEST, "default"))
    assert [(path, query) for _, path, query in server.asked] == [
        ("/apis/batch/v1/namespaces/default/jobs", (("dryRun", "All"),)),
        ("/api/v1/namespaces/other/pods", (("dryRun", "All"),)),
        ("/api/v1/namespaces", (("dryRun", "All"),)),
    ]
    assert (found["kind"], found["items"][0]["metadata"]) == ("List", {"name": "a", "uid": "1"})


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(b"a: [", "the manifest cannot be used: it is not YAML: ", id="no YAML"),
        pytest.param(b"", "the manifest cannot be used: it has no object", id="nothing"),
        pytest.param(b"a: 1", "an object of the manifest has no apiVersion or kind", id="no kind"),
        pytest.param(b"- a", "the manifest cannot be used: document 1 is no object", id="a list"),
        pytest.param(b"{apiVersion: x/v1, kind: Y, metadata: {name: z}}",
            "Y default/z would not be created: the server has no kind Y in x/v1",
            id="a kind that is not served"),
        pytest.param(b"{apiVersion: batch/v1, kind: Job, metadata: 1, spec: {a: .nan}}",
            "Job default/ would not be created: ", id="metadata that is none"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_created(manifest: bytes, want: str) -> None:
    with pytest.raises(CommandError) as raised:
        apply_dry(Recorded(CommandError("refused")), manifest, "default")
    assert raised.value.message.startswith(want)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(b'{"kind": "\\ud83d\\ude00"}', id="JSON, with an escape"),
        pytest.param(b'{"kind": "Job"}\n---\n', id="JSON as a document of YAML"),
        pytest.param(b"{kind: Job}", id="YAML on one line"),
    ],
)
def test_json_is_read_too(manifest: bytes) -> None:
    assert [list(each) for each in read_manifest(manifest)] == [["kind"]]


EDIT: Json = {"kind": "Queue", "name": "q", "patch": {"spec": {"priority": 1}}}


def test_a_patch_is_sent_to_the_object_that_it_is_of() -> None:
    server = Recorded()
    node = {"kind": "Node", "name": "n", "copies": 3}
    assert check_patches(server, [EDIT, node], "system") == []
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/system/queues/q"
    assert server.asked == [("PATCH", path, (("dryRun", "All"),))]


def test_operations_are_sent_as_a_json_patch() -> None:
    sent: list[tuple[str, Any, str]] = []

    class Keeping(Recorded):
        def send(
            self,
            method: str,
            path: str,
            body: bytes = b"",
            content_type: str = "",
            query: Query = (),
        ) -> bytes:
            sent.append((path, json.loads(body), content_type))
            return b"{}"

    operations = [{"op": "remove", "path": "/spec/budgets/0"}]
    edit = {"kind": "QuotaPolicy", "name": "p", "operations": operations}
    assert check_patches(Keeping(), [edit], "system") == []
    path = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/system/quotapolicies/p"
    assert sent == [(path, operations, "application/json-patch+json")]


@pytest.mark.parametrize("error", [Refused("may not"), Missing("not there")])
def test_a_patch_that_may_not_be_sent_is_noted(error: CommandError) -> None:
    assert check_patches(Recorded(error), [EDIT], "system") == [f"Queue q: {error.message}"]


def test_an_edit_without_a_namespace_is_noted() -> None:
    edit = {"kind": "ElasticQuota", "name": "a", "patch": {}}
    want = ["ElasticQuota a: the edit names no namespace"]
    assert check_patches(Recorded(), [edit], "system") == want


def test_a_patch_that_is_refused_is_the_answer() -> None:
    with pytest.raises(CommandError, match="would refuse the edit of Queue q: too large"):
        check_patches(Recorded(CommandError("too large")), [EDIT], "system")


class Existing(Recorded):
    """A server where all objects exist; patches may be refused."""

    def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = "", query: Query = ()
    ) -> bytes:
        if method == "POST":
            self.asked.append((method, path, query))
            raise Conflicting("it already exists")
        assert content_type == MERGE_PATCH
        return super().send(method, path, body, content_type, query)


def test_an_object_that_exists_is_patched_with_what_the_manifest_says() -> None:
    server = Existing()
    found = json.loads(apply_dry(server, MANIFEST, "default"))
    dry = (("dryRun", "All"),)
    job, pod = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/other/pods"
    assert server.asked[:4] == [
        *[("POST", job, dry), ("PATCH", f"{job}/a", dry)],
        *[("POST", pod, dry), ("PATCH", f"{pod}/b", dry)],
    ]
    assert found["items"][0]["metadata"] == {"name": "a", "uid": "1"}


def test_an_update_that_is_refused_says_so() -> None:
    with pytest.raises(CommandError, match=r"^Job default/a would not be updated: immutable$"):
        apply_dry(Existing(CommandError("immutable")), MANIFEST, "default")


KEPT = "webhook judges quotas: it would take that for the change itself"
QUOTA_EDIT: Json = {"kind": "ElasticQuota", "namespace": "x", "name": "a", "patch": {"spec": {}}}
QUOTA = b"{apiVersion: scheduling.sigs.k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: a}}"


@pytest.mark.parametrize(
    ("webhooks", "said"),
    [
        pytest.param(["elasticquotas"], KEPT, id="a webhook judges quotas"),
        pytest.param(Refused("may not"), "whether one does is not known: may not", id="unknown"),
        pytest.param(["pods"], "", id="none does"),
    ],
)
def test_a_quota_is_not_sent_where_a_webhook_would_keep_it(
    webhooks: list[str] | CommandError, said: str
) -> None:
    server = Recorded(webhooks=webhooks)
    unasked = check_patches(server, [EDIT, QUOTA_EDIT], "system")
    created = json.loads(apply_dry(server, MANIFEST + b"---\n" + QUOTA, "x"))
    sent = [path for _, path, _ in server.asked if "elasticquotas" in path]
    assert (len(sent), len(unasked)) == ((0, 1) if said else (2, 0))
    assert said in "".join(unasked)
    assert created["items"][-1]["metadata"]["name"] == "a"


@pytest.mark.parametrize(
    ("webhooks", "dry_run", "sent"),
    [
        pytest.param(["elasticquotas"], True, 0, id="a webhook judges quotas"),
        pytest.param(["elasticquotas"], False, 1, id="it is no dry run"),
        pytest.param(["pods"], True, 1, id="none does"),
    ],
)
def test_a_quota_is_not_changed_by_dry_run_where_a_webhook_would_keep_it(
    webhooks: list[str], sent: int, *, dry_run: bool
) -> None:
    server = Recorded(webhooks=webhooks)
    place = Place(ELASTIC_QUOTAS, "x", "a", "elasticquota/a", "1")
    change = Change(on=On.QUOTA, patch={"spec": {}}, outcome="changed", edit={})
    Targets(server).write(place, change, dry_run=dry_run)
    assert [method for method, _, _ in server.asked] == ["PATCH"] * sent
