"""A unit and its job as they are on the API server, and no other object by way of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from queue_insight.page.unit_manifests import read_job, read_unit
from shared_api.objects.queue_unit import ConsumerReference
from tests.queue_insight.page.visitor_kit import DISCOVERY, JOB, JOBS, PlayedApi, unit

UNIT_PATH = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits/train-unit"
JOB_PATH = "/apis/batch/v1/namespaces/default/jobs/train"


def read(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content)
    return found


def test_a_unit_is_shown_without_its_managed_fields() -> None:
    body = {"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "spec": {"x": [1, "ü"]}}
    api = PlayedApi({UNIT_PATH: body})
    want = {"metadata": {"name": "a"}, "spec": {"x": [1, "ü"]}}
    assert read(read_unit(api.client(), unit())) == {"manifest": want, "problem": ""}
    assert api.paths == [UNIT_PATH]


def test_the_path_of_a_job_is_found_by_its_kind() -> None:
    api = PlayedApi({DISCOVERY: JOBS, JOB_PATH: {"metadata": {"name": "train"}}})
    got = read(read_job(api.client(), unit()))
    assert got["manifest"] == {"metadata": {"name": "train"}}
    assert api.paths == [DISCOVERY, JOB_PATH]


def test_a_job_that_is_a_pod_is_found() -> None:
    path = "/api/v1/namespaces/default/pods/train"
    api = PlayedApi({path: {"metadata": {"name": "train"}}})
    job = replace(JOB, api_version="v1", kind="Pod")
    assert read(read_job(api.client(), unit(job)))["manifest"] == {"metadata": {"name": "train"}}
    assert api.paths == [path]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"api_version": "v1", "kind": "Secret"}, id="a Secret"),
        pytest.param({"api_version": "/v1", "kind": "Secret"}, id="with an empty group"),
        pytest.param({"api_version": "../api/v1", "kind": "Secret"}, id="up from a group"),
        pytest.param({"api_version": "batch/../../v1"}, id="up from a version"),
        pytest.param({"api_version": "batch/v1?x="}, id="a query"),
        pytest.param({"api_version": "batch/v1/namespaces"}, id="a deeper path"),
        pytest.param({"name": "../../secrets/s"}, id="up from a name"),
        pytest.param({"name": ".."}, id="up"),
        pytest.param({"name": "a/log"}, id="a subresource"),
        pytest.param({"name": "a?watch=1"}, id="a query after the name"),
        pytest.param({"kind": "Other"}, id="a kind that is not served"),
        pytest.param({"kind": "Node"}, id="a kind without namespaces"),
        pytest.param({"kind": "Odd"}, id="a kind with an odd plural"),
        pytest.param({"kind": "jobs/../x"}, id="a kind that is a path"),
    ],
)
def test_no_field_of_a_unit_leads_to_another_path(changed: dict[str, str]) -> None:
    more = [
        {"name": "nodes", "kind": "Node", "namespaced": False},
        {"name": "../secrets", "kind": "Odd", "namespaced": True},
    ]
    api = PlayedApi({DISCOVERY: {"resources": [*JOBS["resources"], *more]}})
    job = replace(JOB, **changed)
    got = read(read_job(api.client(), unit(job)))
    assert got["manifest"] is None
    assert "no such object" in got["problem"]
    assert set(api.paths) <= {DISCOVERY}


def test_the_namespace_is_that_of_the_unit() -> None:
    api = PlayedApi({DISCOVERY: JOBS})
    read_job(api.client(), unit(replace(JOB, namespace="kube-system")))
    assert api.paths == [DISCOVERY, JOB_PATH]


@pytest.mark.parametrize("job", [None, ConsumerReference()])
def test_a_unit_without_a_job_asks_for_none(job: ConsumerReference | None) -> None:
    api = PlayedApi({})
    assert read(read_job(api.client(), unit(job)))["manifest"] is None
    assert api.asked == []
