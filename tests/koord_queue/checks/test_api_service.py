from __future__ import annotations

from typing import Any

import pytest

from koord_queue.checks.api_service import GROUP_VERSION, NAME
from koord_queue.checks.facts import Answer
from tests.koord_queue.checks.healthy import (
    condition,
    deployment,
    finding_texts,
    found,
    listed,
    named,
)

SERVING = listed(deployment("scheduler", "--visibility-address=:8086"))
SERVICE = {"service": {"name": "koord-queue-visibility", "namespace": "koord-queue"}}
DOWN = condition("Available", "False", "MissingEndpoints", "no endpoints")


def service(*conditions: dict[str, Any]) -> Answer:
    return Answer(named(NAME, spec=SERVICE, status={"conditions": list(conditions)}))


REFUSED = Answer(right="get apiservices")


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param(
            {},
            "ok: the aggregated API is off: commands need a port-forward or --server",
            id="off",
        ),
        pytest.param(
            {"api_service": service(condition("Available", "True")), "deployments": SERVING},
            f"ok: {NAME} is available",
            id="available",
        ),
        pytest.param({"deployments": SERVING}, f"problem: {NAME} is missing", id="missing"),
        pytest.param(
            {"api_service": Answer(named(NAME, spec={})), "deployments": SERVING},
            "warning: the aggregated API is not published: the insight program has not served it"
            " yet",
            id="not published yet",
        ),
        pytest.param(
            {"api_service": service(DOWN), "deployments": SERVING},
            f"problem: {NAME} is not available (MissingEndpoints: no endpoints)",
            id="not available",
        ),
        pytest.param(
            {"api_service": service(), "deployments": SERVING},
            f"problem: {NAME} is not available (no condition yet)",
            id="without a condition",
        ),
        pytest.param(
            {"api_service": service(DOWN)},
            f"problem: {NAME} is not available (MissingEndpoints: no endpoints); nobody serves it:"
            " namespaces cannot be deleted",
            id="stale: no program serves it",
        ),
        pytest.param(
            {"api_service": REFUSED, "served": {GROUP_VERSION: Answer({"resources": []})}},
            f"ok: {GROUP_VERSION} is served",
            id="no right, and it answers",
        ),
        pytest.param(
            {"api_service": REFUSED, "served": {GROUP_VERSION: Answer(failure="503")}},
            f"problem: {GROUP_VERSION} does not answer: 503",
            id="no right, and it does not answer",
        ),
        pytest.param(
            {"api_service": REFUSED},
            "unknown: it cannot be read: you may not get apiservices",
            id="no right, and it is not served",
        ),
    ],
)
def test_the_api_service_is_judged(changes: dict[str, Any], want: str) -> None:
    assert finding_texts("apiservice", **changes) == [want]


def test_a_stale_api_service_is_to_be_deleted() -> None:
    [got] = found("apiservice", api_service=service(DOWN))
    assert got.fix == f"kubectl delete apiservice {NAME}"
