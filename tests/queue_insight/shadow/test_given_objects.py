"""The file of quotas, queues and places that a user gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from queue_insight.replay.jobs import TraceError
from queue_insight.shadow.given_objects import read_given
from queue_insight.shadow.quota_mapping import QuotaMapping

QUEUES = """
kind: ShadowPlaces
kueueQueues: {b/main: own}
namespaces: {c: rest}
---
apiVersion: v1
kind: List
items:
  - {kind: LocalQueue, metadata: {name: main, namespace: a}, spec: {clusterQueue: research}}
  - {kind: LocalQueue, metadata: {name: main, namespace: b}, spec: {clusterQueue: research}}
---
{kind: WorkloadPriorityClass, metadata: {name: urgent}, value: 900}
---
{kind: Namespace, metadata: {name: a}}
---
kind: ElasticQuota
metadata: {name: research, namespace: kq}
spec: {max: {cpu: 4}}
"""


def test_local_queues_say_their_quota_unless_the_user_says_another(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(QUEUES)
    given = read_given(path)
    queues = {"a/main": "research", "b/main": "own"}
    want = QuotaMapping(kueue_queues=queues, namespaces={"c": "rest"}, priorities={"urgent": 900})
    assert given.places == want
    (body,) = given.bodies
    assert body["metadata"]["uid"] == "ElasticQuota/kq/research"
    assert body["spec"] == {"max": {"cpu": 4}}


def test_policies_of_quotas_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "objects.yaml"
    limits = "[{users: [ann], running: 1}]"
    spec = f"{{quotas: [research], userLimits: {limits}}}"
    path.write_text(f"{{kind: QuotaPolicy, metadata: {{name: p, namespace: kq}}, spec: {spec}}}")
    (body,) = read_given(path).bodies
    assert (body["kind"], body["metadata"]["uid"]) == ("QuotaPolicy", "QuotaPolicy/kq/p")
    assert body["spec"]["userLimits"][0]["running"] == 1


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("kind: Pod", "kind is 'Pod', want one of ElasticQuota", id="another kind"),
        pytest.param("kind: Queue", "it has no metadata.name", id="no name"),
        pytest.param("{kind: ShadowPlaces, queues: {}}", "unknown field `queues`", id="a typo"),
        pytest.param(
            "{kind: QuotaPolicy, metadata: {name: p}, spec: {userLimits: [{users: [ann]}]}}",
            "set at least one of",
            id="a policy without an effect",
        ),
        pytest.param(
            "{kind: ElasticQuota, spec: {max: 4}}", "Expected `object`", id="a wrong field"
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, want: str) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    with pytest.raises(TraceError, match=f"objects.yaml, document 1: .*{want}"):
        read_given(path)
