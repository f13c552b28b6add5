"""The rights to read nodes and to delete pods, where jobs may ask for that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.render import render, rules_of

Json = dict[str, Any]

ALLOWED: Json = {"controllers": {"config": {"deleteLostPods": True}}}


def verbs_on(resource: str, values: Json) -> set[str]:
    """Return what the controllers may do with a resource."""
    rules = rules_of(render(values), "ClusterRole", "koord-queue-controllers")
    return {verb for each in rules if resource in each["resources"] for verb in each["verbs"]}


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="by default"),
        pytest.param({"controllers": {"config": {"deleteLostPods": False}}}, id="explicitly off"),
    ],
)
def test_without_the_value_there_are_no_such_rights(values: Json) -> None:
    assert verbs_on("nodes", values) == set()
    assert verbs_on("pods", values) == {"get", "list", "watch"}


def test_the_value_gives_these_rights_and_no_others() -> None:
    assert verbs_on("nodes", ALLOWED) == {"get", "list", "watch"}
    assert verbs_on("pods", ALLOWED) == {"get", "list", "watch", "delete"}
