"""The command units: in which order objects are written."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from koord_queue.answers.pending import Pending
from koord_queue.cli.units import units
from koord_queue.reach.cluster import Cluster
from koord_queue.reach.questions import BASE, Question
from koord_queue.reach.sources import AggregatedApi
from shared_api.client.transport import Response
from shared_api.testing.object_builders import queue_unit_body
from shared_api.well_known_labels import SUBMITTED_BY, USER
from tests.koord_queue.cli.played_answers import run
from tests.koord_queue.reach.test_cluster import Server
from tests.koord_queue.session.played_session import PlayedSession

RUNNER: Final = "system:serviceaccount:team-a:runner"
PLACES: Final = [
    Pending("default", "a", "team", 3, "2026-11-26T12:00:00Z"),
    Pending("default", "b", "team", 1, "2026-11-26T13:00:00Z"),
    Pending("default", "c", "team", 2, "2026-11-26T11:00:00Z"),
]
GIVEN: Final[dict[str, Any]] = {
    "all_namespaces": False,
    "selector": None,
    "mine": False,
    "finished": False,
    "watch": False,
    "at": None,
    "dump": None,
}


class Places:
    """Says where units wait, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, question: Question[list[Pending]]) -> list[Pending]:
        server = Server(Response(200, {}, b"{}"))
        AggregatedApi(Cluster(server, "", "server")).answer(question)
        (request,) = server.asked
        assert request.path == f"{BASE}/namespaces/default/pendingunits"
        assert "fieldSelector" not in dict(request.query)
        self.asked += 1
        return PLACES


@pytest.mark.parametrize(
    ("sort_by", "want", "asked"),
    [
        pytest.param(None, "abc", 0, id="as the server has them, and nothing else is asked"),
        pytest.param("name", "abc", 0, id="by name"),
        pytest.param("priority", "cba", 0, id="the highest priority first"),
        pytest.param("queue", "bca", 1, id="by place in the queue"),
        pytest.param("start", "cab", 1, id="the soonest first"),
    ],
)
@pytest.mark.parametrize("form", ["json", "name"])
def test_objects_are_sorted_as_the_table_is(
    form: str, sort_by: str | None, want: str, asked: int
) -> None:
    session = PlayedSession()
    places = Places()
    session.source = places
    session.server.direct.create_all(
        queue_unit_body(name, priority=priority) for priority, name in enumerate("abc")
    )
    got = run(units, session, form=form, sort_by=sort_by, **GIVEN)
    if form == "json":
        got = [each["metadata"]["name"] for each in json.loads("\n".join(got))["items"]]
    assert "".join(each.rpartition("/")[2] for each in got) == want
    assert places.asked == asked


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("ann", ["queueunit.scheduling.x-k8s.io/a"], id="by the label"),
        pytest.param(RUNNER, ["queueunit.scheduling.x-k8s.io/b"], id="a name that fits in none"),
    ],
)
def test_ones_own_units_are_found_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, want: list[str]
) -> None:
    session = PlayedSession()
    named = {
        "a": {"labels": {USER: "ann"}, "annotations": {SUBMITTED_BY: "ann"}},
        "b": {"annotations": {SUBMITTED_BY: RUNNER}},
        "c": {"labels": {USER: "bob"}},
    }
    session.server.direct.create_all(
        queue_unit_body(unit, metadata=metadata) for unit, metadata in named.items()
    )
    monkeypatch.setattr("koord_queue.cli.units._own_name", lambda _: name)
    assert run(units, session, form="name", sort_by=None, **{**GIVEN, "mine": True}) == want
