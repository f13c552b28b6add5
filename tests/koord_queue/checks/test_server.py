from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from koord_queue.checks.facts import Answer
from koord_queue.checks.server import field_paths
from shared_api.crds import DEFINITIONS, GROUP, QUEUE, VERSION
from tests.koord_queue.checks.healthy import (
    NOW,
    Json,
    ago,
    condition,
    crd,
    finding_texts,
    found,
    lease,
    listed,
)


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(Answer({"gitVersion": "v1.36.2"}), "ok: Kubernetes v1.36.2", id="new"),
        pytest.param(
            Answer({"gitVersion": "v1.31.0-eks-1"}),
            "ok: Kubernetes v1.31.0-eks-1; field selectors of queueunits need 1.32",
            id="without field selectors",
        ),
        pytest.param(
            Answer({"gitVersion": "v1.28.9"}),
            "problem: Kubernetes v1.28.9 is too old: CRD rules need 1.29",
            id="too old",
        ),
        pytest.param(
            Answer({}), "unknown: its version '' cannot be read", id="a server that does not say"
        ),
        pytest.param(
            Answer(failure="it is down"), "problem: it cannot be asked: it is down", id="down"
        ),
    ],
)
def test_the_version_of_the_api_server_is_judged(answer: Answer, want: str) -> None:
    assert finding_texts("server", server=answer) == [want]


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        pytest.param(1, "ok: this machine and the API server agree on the time", id="the same"),
        pytest.param(
            -20, "warning: this machine's clock is 20 s behind the API server's", id="behind"
        ),
        pytest.param(
            90, "problem: this machine's clock is 90 s ahead of the API server's", id="far ahead"
        ),
    ],
)
def test_the_clock_of_this_machine_is_compared(seconds: int, want: str) -> None:
    assert finding_texts("clock", now=NOW + timedelta(seconds=seconds)) == [want]


def test_the_clock_of_a_program_is_compared() -> None:
    ahead = listed(lease(renewed=ago(seconds=-30), holder="pod-1"), lease(renewed="unreadable"))
    got = finding_texts("clock", leases=ahead)
    assert got[1:] == ["warning: the clock of pod-1 is 30 s ahead of the API server's"]
    assert finding_texts("clock", server_time=None) == [
        "unknown: the API server does not say its time"
    ]


def changed_crd(**changes: Any) -> dict[str, Answer]:
    """Return the CRDs, that of queues changed."""
    all_of_them = {each.plural: Answer(crd(each.plural)) for each in DEFINITIONS}
    return all_of_them | {"queues": Answer(crd("queues") | changes)}


def with_schema(schema: Json) -> dict[str, Answer]:
    version = {"name": VERSION, "schema": {"openAPIV3Schema": schema}}
    return changed_crd(spec={"versions": [version]})


def older() -> Json:
    schema = QUEUE.schema()
    del schema["properties"]["spec"]["properties"]["priority"]
    return schema


OTHER_SCHEMA = QUEUE.schema() | {"x-kubernetes-validations": [{"rule": "true"}]}
NAME = f"queues.{GROUP}"
CURRENT = "ok: queues, queueunits, quotapolicies and queuereservations are those of this version"


@pytest.mark.parametrize(
    ("crds", "want"),
    [
        pytest.param(changed_crd(), CURRENT, id="those of this version"),
        pytest.param(
            with_schema(QUEUE.schema() | {"description": "other words"}), CURRENT, id="other words"
        ),
        pytest.param(
            with_schema(older()),
            f"problem: the CRD {NAME} is older than this version: it lacks spec.priority",
            id="an older one lacks a field",
        ),
        pytest.param(
            with_schema(OTHER_SCHEMA),
            f"warning: the schema of the CRD {NAME} is not that of this version",
            id="another one with the same fields",
        ),
        pytest.param(
            changed_crd(spec={"versions": [{"name": "v2"}]}),
            f"problem: the CRD {NAME} has no version v1alpha1",
            id="another version only",
        ),
        pytest.param(
            changed_crd(status={"conditions": [condition("Established", "False", message="no")]}),
            f"problem: the CRD {NAME} is not served: no",
            id="not established",
        ),
        pytest.param(
            changed_crd() | {"queues": Answer()},
            f"problem: the CRD {NAME} is missing",
            id="missing",
        ),
        pytest.param(
            changed_crd() | {"quotapolicies": Answer()},
            f"warning: the CRD quotapolicies.{GROUP} is missing: no QuotaPolicy counts",
            id="an optional one is missing",
        ),
        pytest.param(
            changed_crd() | {"queues": Answer(right="get customresourcedefinitions")},
            "unknown: their schemas cannot be read: you may not get customresourcedefinitions",
            id="the user may not read it",
        ),
    ],
)
def test_the_crds_are_compared_with_those_of_this_version(
    crds: dict[str, Answer], want: str
) -> None:
    assert finding_texts("crds", crds=crds) == [want]


def test_a_kind_that_is_not_served_is_a_problem_whoever_asks() -> None:
    nothing = {f"{GROUP}/{VERSION}": Answer()}
    got = found("crds", served=nothing, crds={})
    assert [f"{each.level}: {each.text}" for each in got] == [
        f"problem: {NAME}/{VERSION} is not served",
        f"problem: queueunits.{GROUP}/{VERSION} is not served",
        f"warning: quotapolicies.{GROUP}/{VERSION} is not served: no QuotaPolicy counts",
        f"warning: queuereservations.{GROUP}/{VERSION} is not served: no QueueReservation counts",
    ]
    assert got[0].fix == "kubectl apply --server-side -f crds/"


def test_fields_have_paths() -> None:
    item = {"properties": {"count": {"type": "integer"}}}
    schema = {"properties": {"spec": {"properties": {"sets": {"type": "array", "items": item}}}}}
    assert list(field_paths(schema)) == ["spec", "spec.sets", "spec.sets[].count"]
