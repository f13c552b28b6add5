"""Values of PriorityClasses that come, change and go while jobs wait: which job starts first.

Both programs over one server: the controllers write a class's value into units, and the scheduler
orders its line by that. The value of a class cannot be edited: it is deleted and made again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

CLASS = "team-class"


@pytest.mark.parametrize(
    ("classed", "values", "want"),
    [
        pytest.param("younger", [], "older", id="the class is missing"),
        pytest.param("younger", [1000], "younger", id="it comes, and is high"),
        pytest.param("younger", [1000, -5], "older", id="it was high, and is low"),
        pytest.param("younger", [1000, None], "older", id="it was high, and is gone"),
        pytest.param("older", [-5], "younger", id="it comes, and is low"),
        pytest.param("older", [-5, 1000], "older", id="it was low, and is high"),
        pytest.param("older", [-5, None], "younger", id="it is gone: pods would be refused"),
    ],
)
def test_the_value_of_its_class_counts_when_a_job_gets_its_turn(
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
        put_class(town, value)
        town.pass_time(2.0)
    assert started(town) == []
    town.jobs.complete("first")
    for number in range(2):
        town.delete_pod(number, "first")
    town.pass_time(3.0)
    assert started(town) == [want]


def started(town: Town) -> list[str]:
    """Return which of the two that waited have been released."""
    return [name for name in ("older", "younger") if not town.jobs.is_suspended(name)]


def put_class(town: Town, value: int | None) -> None:
    """Do what an administrator does; None: delete the class."""
    direct = town.jobs.direct
    if any(each["metadata"]["name"] == CLASS for each in direct.list("priorityclasses")):
        direct.delete("priorityclasses", CLASS)
    if value is not None:
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        direct.create({**body, "metadata": {"name": CLASS}})


def template_of(priority_class: str) -> dict[str, Any]:
    """Return a template of one cpu; "": it names no class."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    named = {"priorityClassName": priority_class} if priority_class else {}
    return {"spec": {"restartPolicy": "Never", "containers": [container], **named}}
