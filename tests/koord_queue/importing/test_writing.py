"""What a second import changes, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.importing.writing import difference

Json = dict[str, Any]
LISTED = "koord-queue/available-quota-in-namespace"
STOP = "koord-queue/stop-policy"
PARENT = "quota.scheduling.koordinator.sh/parent"
WEIGHT = "quota.scheduling.koordinator.sh/shared-weight"


def body(kind: str, *, spec: Json | None = None, **metadata: Json) -> Json:
    found: Json = {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "team", **metadata}}
    return found if spec is None else {**found, "spec": spec}


QUEUE = {"queuePolicy": "Block", "priority": 1000}
CHECKED = {**QUEUE, "admissionChecks": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("live", "want", "patch"),
    [
        pytest.param(body("Queue", spec=QUEUE), body("Queue", spec=QUEUE), {}, id="the same"),
        pytest.param(
            body("Queue", spec=QUEUE, annotations={"koord-queue/backfill": "true"}),
            body("Queue", spec=QUEUE),
            {},
            id="what users have added stays",
        ),
        pytest.param(
            body("Queue", spec=CHECKED, annotations={STOP: "Hold"}),
            body("Queue", spec=QUEUE),
            {"spec": {"admissionChecks": None}, "metadata": {"annotations": {STOP: None}}},
            id="what an import had set is taken back",
        ),
        pytest.param(
            body("ElasticQuota", spec={"min": {"cpu": "1"}, "max": {"cpu": "2"}}),
            body("ElasticQuota", spec={"min": {"cpu": "1"}, "max": {"cpu": "3"}}),
            {"spec": {"max": {"cpu": "3"}}},
            id="an amount",
        ),
        pytest.param(
            body("ElasticQuota", spec={"min": {"cpu": "1", "memory": "2"}}),
            body("ElasticQuota", spec={"min": {"cpu": "1"}}),
            {"spec": {"min": {"memory": None}}},
            id="a resource that is gone",
        ),
        pytest.param(
            body(
                "ElasticQuota",
                spec={},
                labels={PARENT: "koordinator-root-quota"},
                annotations={WEIGHT: "{}"},
            ),
            body("ElasticQuota", spec={}),
            {},
            id="what Koordinator's webhook has filled in stays",
        ),
        pytest.param(
            body("ElasticQuota", spec={}, labels={PARENT: "old"}),
            body("ElasticQuota", spec={}, labels={PARENT: "new"}),
            {"metadata": {"labels": {PARENT: "new"}}},
            id="another parent",
        ),
        pytest.param(
            {**body("PriorityClass"), "value": 1},
            {**body("PriorityClass"), "value": 2},
            {"value": 2},
            id="a field that is not in the spec",
        ),
    ],
)
def test_difference(live: Json, want: Json, patch: Json) -> None:
    assert difference(live, want) == patch


@pytest.mark.parametrize(
    ("listed", "want"),
    [
        pytest.param(None, "a,b", id="the first ones"),
        pytest.param("c, a", "c,a,b", id="those that are listed stay"),
        pytest.param("b,a", None, id="they are listed"),
        pytest.param("*", None, id="all are"),
    ],
)
def test_a_namespace_gets_more_quotas(listed: str | None, want: str | None) -> None:
    annotations = {} if listed is None else {LISTED: listed}
    live = body("Namespace", annotations=annotations)
    got = difference(live, body("Namespace", annotations={LISTED: "a,b"}))
    assert got == ({} if want is None else {"metadata": {"annotations": {LISTED: want}}})
