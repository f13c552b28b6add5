"""No answer of any door names what only namespaces have that its reader may not read."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from queue_insight.page.live import Change, show_change
from queue_insight.page.visitors import LocalVisitors, Visitor
from queue_insight.visibility.openapi import BASE, document_v3
from queue_scheduler.debug_api.hiding import LEAST_SUMMED
from shared_api.testing.object_builders import job_body
from shared_api.well_known_labels import ENABLE_PREEMPTION, QUOTA_NAME
from tests.properties.hidden_world import (
    AT,
    MINE,
    QUEUES,
    READER_OF_ALL,
    RULES,
    VISITOR,
    AppClient,
    Doors,
    HiddenWorld,
    identify,
    open_doors,
)

pytestmark = pytest.mark.properties

Json = dict[str, Any]

ENDLESS: Final = "/page/events"
FOR_READERS_OF_ALL: Final = {"/debug/dump", f"{BASE}/pendingunits"}
"""What takes the right to read all namespaces."""
QUERIES: Final[dict[str, tuple[str, ...]]] = {
    "/debug/queues": ("", f"at={AT}"),
    "/debug/queues/{name}": ("", f"at={AT}", "offset=1"),
    "/debug/queueunits/{namespace}/{name}": ("", f"at={AT}"),
    "/debug/queueunits/{namespace}/{name}/explain": ("", "changes=true", f"at={AT}"),
    "/page/queues/{name}": ("", "sort=-name", "filter=w"),
    "/page/over-time": ("", *(f"{kind}={name}" for kind in ("queue", "quota") for name in QUEUES)),
    "/debug/reservations": ("", f"at={AT}"),
    "/debug/user-limits": ("", f"quota={QUEUES[0]}", "offset=1"),
    "/debug/report": ("by=user", "by=namespace,quota,user", "by=quota", "by=group,kind"),
    "/page/report": ("", "by=namespace", "by=quota&range=1d"),
    "/page/report.csv": ("", "by=namespace", "by=quota"),
    "/page/jobs": ("", f"at={AT}", "filter=w", "filter=state:finished", "sort=-user"),
    "/page/jobs.csv": ("", f"at={AT}", "filter=user:w", "sort=quota"),
    f"{BASE}/namespaces/{{namespace}}/pendingunits/{{name}}/explain": ("", "changes=true"),
}
"""Queries of paths that have more than one."""
OF: Final[dict[str, tuple[str, ...]]] = {"/page/manifests/{of}/{name}": ("queue", "quota")}
"""What paths with `{of}` are asked for, if not for a job."""


class Question(NamedTuple):
    """A request: its route, its path with a query, and what it posts; None: it is a GET."""

    route: str
    path: str
    body: Json | None = None


def what_if_questions() -> Iterator[Json]:
    """Yield edits of what is shared, and of a unit of the visitor."""
    for name in QUEUES:
        quota = {"kind": "ElasticQuota", "namespace": "default", "name": name}
        for cpu in ("1", "30"):
            yield {"edits": [{**quota, "patch": {"spec": {"max": {"cpu": cpu}}}}]}
        switched = {"metadata": {"annotations": {ENABLE_PREEMPTION: "true"}}}
        policy = {"spec": {"queuePolicy": "Priority"}}
        edit = {"kind": "Queue", "name": name, "patch": switched | policy}
        label = {"metadata": {"labels": {QUOTA_NAME: name}}}
        unit = {**label, "spec": {"priority": 10, "request": {"cpu": 3}}}
        new = {"kind": "QueueUnit", "namespace": MINE, "name": "new", "patch": unit}
        yield {"edits": [edit, new]}
        if name == QUEUES[0]:
            limits = {"quotas": list(QUEUES), "userLimits": [{"users": ["*"], "running": 9}]}
            rules = {"kind": "QuotaPolicy", "name": RULES, "patch": {"spec": limits}}
            yield {"edits": [rules]}
            yield {"edits": [edit], "horizonSeconds": 600}


def bodies(route: str) -> list[Json]:
    """Return what is posted to a route."""
    if route.endswith("what-if"):
        return list(what_if_questions())
    return [
        job_body(
            "new", namespace=MINE, requests={"cpu": cpu}, metadata={"labels": {QUOTA_NAME: of}}
        )
        for of in QUEUES
        for cpu in (1, 6)
    ]


def questions(world: HiddenWorld, routes: dict[str, set[str]]) -> Iterator[Question]:
    """Yield what the visitor asks of the routes of a door, which come with their methods."""
    for route, methods in routes.items():
        by_unit = "{name}" in route and "{namespace}" in route
        names = world.mine if by_unit else QUEUES if "{name}" in route else ("",)
        for name, of in itertools.product(names, OF.get(route, ("job",))):
            path = route.replace("{namespace}", MINE).replace("{name}", name).replace("{of}", of)
            queries = QUERIES.get(route, ("",)) if "get" in methods else ()
            yield from (Question(route, f"{path}?{query}") for query in queries)
            posted = bodies(route) if "post" in methods else ()
            where = f"{path}?namespace={MINE}&changes=true"
            yield from (Question(route, where, body) for body in posted)


def routes_of(doors: Doors) -> list[tuple[Any, dict[str, set[str]]]]:
    """Return the doors, each with its routes and their methods."""
    return list(zip(doors, _routes(), strict=True))


@functools.cache
def _routes() -> list[dict[str, set[str]]]:
    """Return the routes of each door: of every world the same."""
    doors = open_doors(HiddenWorld(0))
    contracts = (doors.debug.openapi(), doors.page.openapi(), document_v3())
    return [*map(_declared, contracts)]


def _declared(contract: Json) -> dict[str, set[str]]:
    left_out = {ENDLESS, *FOR_READERS_OF_ALL}
    return {path: set(item) for path, item in contract["paths"].items() if path not in left_out}


def answers(world: HiddenWorld, doors: Doors, reader: str) -> Iterator[tuple[Question, str]]:
    """Yield what a reader is answered."""
    for app, routes in routes_of(doors):
        client = AppClient(app, reader)
        for question in questions(world, routes):
            if question.body is None:
                got = client.send("GET", question.path)
            else:
                got = client.send("POST", question.path, json=question.body)
            assert got.status_code in {200, 201, 404, 503}, (question, got.text)
            yield question, got.text


@pytest.fixture(autouse=True)
def _visitors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalVisitors, "identify", identify)


def names_of_others(world: HiddenWorld, text: str) -> list[str]:
    return sorted(word for word in world.words if word in text)


def check_answers(world: HiddenWorld) -> None:
    for question, text in answers(world, open_doors(world), VISITOR):
        assert names_of_others(world, text) == [], (question, text)


@settings(
    max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@example(seed=9)
@example(seed=16)
@example(seed=19)
@example(seed=44)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_answer_names_what_only_others_have(seed: int) -> None:
    check_answers(HiddenWorld(seed))


@settings(
    max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@example(seed=3)
@example(seed=16)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_answer_names_them_where_users_are_limited(seed: int) -> None:
    check_answers(HiddenWorld(seed, has_rules=True))


NAMING: Final = {
    "/apis/v1/queue",
    "/debug/accounts",
    "/debug/log",
    "/debug/queues",
    "/debug/queues/{name}",
    "/debug/queues/{name}/forecast",
    "/debug/queueunits/{namespace}/{name}",
    "/debug/queueunits/{namespace}/{name}/explain",
    "/debug/report",
    "/debug/reservations",
    "/debug/try",
    "/debug/user-limits",
    "/debug/what-if",
    "/page/jobs",
    "/page/jobs.csv",
    "/page/names",
    "/page/overview",
    "/page/queues/{name}",
    "/page/queues/{name}.csv",
    "/page/quotas/{name}",
    "/page/report",
    "/page/report.csv",
    "/page/units/{namespace}/{name}",
    "/page/units/{namespace}/{name}/changes",
    "/page/unqueued",
    "/page/what-if",
    f"{BASE}/namespaces/{{namespace}}/pendingunits",
    f"{BASE}/namespaces/{{namespace}}/pendingunits/{{name}}",
    f"{BASE}/namespaces/{{namespace}}/pendingunits/{{name}}/explain",
    f"{BASE}/namespaces/{{namespace}}/tries",
    f"{BASE}/queues/{{name}}/pendingunits",
}
"""Routes whose answers would name units of others, were nothing hidden."""


def test_a_reader_of_all_is_told_of_others_by_every_route_that_names_units() -> None:
    """Else the test above would find nothing."""
    named: set[str] = set()
    for seed in (9, 16, 19, 44):
        world = HiddenWorld(seed, has_rules=True)
        for question, text in answers(world, open_doors(world), READER_OF_ALL):
            if names_of_others(world, text):
                named.add(question.route)
    assert named == NAMING


def used_by_others(world: HiddenWorld, queue: str) -> int:
    """Return how many namespaces that the visitor may not read have units charged to a quota."""
    engine = world.shared.fork()
    charged = (each for each in engine.units if engine.usage.charge_of(each.uid) is not None)
    names = {each.unit.metadata.namespace for each in charged if each.queue_name == queue}
    return len(names - {MINE})


@settings(
    max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@example(seed=9)
@example(seed=16)
@given(seed=st.integers(0, 2**32 - 1))
def test_use_over_time_is_that_of_the_visitor_or_of_many(seed: int) -> None:
    world = HiddenWorld(seed)
    doors = open_doors(world)
    for kind, name in itertools.product(("queue", "quota"), QUEUES):
        path = f"/page/over-time?{kind}={name}"
        mine, everything = (
            AppClient(doors.page, reader).send("GET", path).json()
            for reader in (VISITOR, READER_OF_ALL)
        )
        others = used_by_others(world, name)
        assert mine["used"] in ({}, everything["used"])
        if 0 < others < LEAST_SUMMED:
            assert mine["used"] == {}
            assert mine["sumsHidden"]


@given(seed=st.integers(0, 2**32 - 1))
def test_events_name_what_the_visitor_may_read(seed: int) -> None:
    world = HiddenWorld(seed)
    units = tuple(world.shared.fork().units.records)
    change = Change(number=1, state_at=AT, queues=QUEUES, quotas=QUEUES, units=units)
    visitor = Visitor(VISITOR, reads_all=False, may_read=MINE.__eq__, refusal_of=lambda _: None)
    shown = show_change(change, visitor, "1")
    assert names_of_others(world, json.dumps(shown)) == []
    assert {each for each in units if each.startswith(f"{MINE}/")} == {*shown["units"]}
