"""Which job starts first when PriorityClasses appear, change, and disappear while jobs wait.

With both programs: the controllers write a class's value into units, and the scheduler orders its
queue by it. The value of a class is immutable, so the class is deleted and created again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from shared_api.testing.object_builders import pod_spec

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

CLASS = "team-class"


@pytest.mark.parametrize(
    ("classed", "values", "want"),
    [
        pytest.param("younger", [], "older", id="the class is missing"),
        pytest.param("younger", [1000], "younger", id="created with a high value"),
        pytest.param("younger", [1000, -5], "older", id="changed from high to low"),
        pytest.param("younger", [1000, None], "older", id="deleted after a high value"),
        pytest.param("older", [-5], "younger", id="created with a low value"),
        pytest.param("older", [-5, 1000], "older", id="changed from low to high"),
        pytest.param("older", [-5, None], "younger", id="deleted: pods would be refused"),
    ],
)
def test_jobs_start_in_the_order_of_the_current_values_of_their_classes(
    town: Town, classed: str, values: list[int | None], want: str
) -> None:
    town.jobs.job("first")
    town.pass_time(2.0)
    assert not town.jobs.is_suspended("first")
    town.jobs.run_pods(name="first")
    for name in ("older", "younger"):
        town.jobs.job(name, template=template_of(CLASS if name == classed else ""))
        town.pass_time(2.0)
    for value in values:
        town.jobs.priority_class(CLASS, value)
        town.pass_time(2.0)
    assert started(town) == []
    town.jobs.complete("first")
    for number in range(2):
        town.delete_pod(number, "first")
    town.pass_time(3.0)
    assert started(town) == [want]


def started(town: Town) -> list[str]:
    """Return which of the two waiting jobs have been released."""
    return [name for name in ("older", "younger") if not town.jobs.is_suspended(name)]


def template_of(priority_class: str) -> dict[str, Any]:
    """Return a template of one CPU; "" for no class."""
    named: dict[str, Any] = {"priorityClassName": priority_class} if priority_class else {}
    return {"spec": pod_spec(restartPolicy="Never", **named)}
