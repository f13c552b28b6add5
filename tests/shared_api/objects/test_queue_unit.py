"""A QueueUnit decodes from what the API server sends, whichever client wrote it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.objects.queue_unit import API_VERSION, KIND, QueueUnit
from shared_api.pod_requests import pod_requests


def decode(**parts: Any) -> QueueUnit:
    return msgspec.json.decode(json.dumps(parts).encode(), type=QueueUnit)


def test_it_is_named_as_in_the_api() -> None:
    assert (QUEUE_UNITS.api_version, QUEUE_UNITS.kind) == (API_VERSION, KIND)


def test_an_empty_unit_has_defaults() -> None:
    unit = decode(apiVersion="scheduling.x-k8s.io/v1alpha1", kind="QueueUnit")
    assert unit.status.phase == "Enqueued"
    assert unit.spec.pod_set == ()
    assert unit.spec.consumer_ref is None


def test_the_json_name_of_the_pod_sets_is_singular() -> None:
    template = {"spec": {"containers": [{"resources": {"requests": {"cpu": 2}}}]}}
    unit = decode(spec={"podSet": [{"count": 3, "template": template}]})
    assert [(pods.name, pods.count) for pods in unit.spec.pod_set] == [("main", 3)]
    assert pod_requests(unit.spec.pod_set[0].template.spec) == {"cpu": 2000}


def test_fields_that_are_not_read_are_skipped() -> None:
    template = {"metadata": {"creationTimestamp": None}, "spec": {"volumes": [{"name": "x"}]}}
    assert decode(spec={"podSet": [{"template": template}], "new": 1}).spec.pod_set


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ({"spec": {"priority": "high"}}, "$.spec.priority"),
        ({"spec": {"request": {"cpu": True}}}, "$.spec.request[...]"),
        ({"spec": {"podSet": [{"count": 1.5}]}}, "$.spec.podSet[0].count"),
        (
            {"spec": {"podSet": [{"template": {"metadata": {"labels": {"a": 1}}}}]}},
            "$.spec.podSet[0].template.metadata.labels[...]",
        ),
    ],
)
def test_a_value_of_the_wrong_type_is_an_error_with_its_path(
    parts: dict[str, Any], path: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        decode(**parts)
    assert str(caught.value).endswith(f"- at `{path}`")


def test_a_unit_stored_under_looser_limits_is_still_decoded() -> None:
    pod_sets = [{"name": f"workers-{number}", "count": -1} for number in range(40)]
    assert len(decode(spec={"podSet": pod_sets, "queue": "q" * 300}).spec.pod_set) == 40
