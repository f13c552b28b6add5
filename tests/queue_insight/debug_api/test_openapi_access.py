"""Whatever a caller asks, no answer names what is in namespaces that it may not read.

Both programs run in this process: the debug API, with its guard, and the insight program behind it,
with a record and forecasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.insight_program import wiring
from queue_scheduler.debug_api.hiding import OF_OTHERS
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Rest
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.ledger import Ledger
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import ResourceRight, Right
from shared_api.debug_api.access import ReviewedAccess
from shared_api.objects.queue_unit import QueueUnit
from shared_api.process.clock import Clock, SystemClock
from shared_api.testing.object_builders import (
    elastic_quota,
    job_body,
    queue,
    queue_unit_body,
    to_struct,
    with_status,
)
from shared_api.well_known_labels import QUOTA_NAME
from tests.process_state import process_as_before
from tests.queue_insight.debug_api.drawn_requests import CONTRACT, PATHS, check_declared, send
from tests.queue_insight.insight_kit import Sender, sending
from tests.queue_insight.insight_process import follow, running
from tests.served_app import served, words_in
from tests.waiting import until

Json = dict[str, Any]

OTHERS: Final = ("zebra", "giraffe", "okapi", "lemur", "quagga")
"""Words that only objects of a namespace have that the caller may not read."""
ANN, BOB = {"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}
"""Ann has every right on paths, and on the objects of one namespace; Bob has none."""


class Rights(Authorizer):
    """Knows Ann and Bob, and asks nobody."""

    def __init__(self) -> None:
        """Need nothing."""

    def judge_bearer(self, authorization: str, right: Right) -> ReviewResult:
        """Return whether one request is allowed."""
        is_elsewhere = isinstance(right, ResourceRight) and right.namespace != "default"
        if authorization == ANN["authorization"] and not is_elsewhere:
            return ReviewResult(HTTPStatus.OK, "")
        is_known = authorization in {*ANN.values(), *BOB.values()}
        status = HTTPStatus.FORBIDDEN if is_known else HTTPStatus.UNAUTHORIZED
        return ReviewResult(status, f"no: {right}")

    def cached_user(self, authorization: str) -> str:
        """Return who asks."""
        return "ann" if authorization == ANN["authorization"] else ""


class House(NamedTuple):
    """The debug API with all behind it.

    Attributes:
        client: Asks it as Ann.
        direct: Asks the insight program itself.
        then: A time that the record knows.
        sender: The scheduler's engine and its feed.
    """

    client: httpx.Client
    direct: httpx.Client
    then: str
    sender: Sender


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("house")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring, "QuestionBudget", ample_budget)
        stack.enter_context(process_as_before())
        _, direct = stack.enter_context(running(folder, f"--record-dir={folder}"))
        sender = stack.enter_context(sending(folder))
        sender.use_real_time()
        sender.shared._engine.usage.ledger = Ledger()  # noqa: SLF001 - before its first call
        fill(sender)
        follow(sender, direct)
        decide_all(sender)
        then = written(sender, direct)
        until(lambda: direct.get("/debug/queues/lab/forecast").status_code == 200)
        state = StateAnswers(sender.shared, lambda: sender.is_leader)
        answers = Answers(state, budget=ample_budget(SystemClock()))
        access = ReviewedAccess(Rights())
        app = build_whole_app(answers, access, (), "0.0.0", InsightLink(folder))
        client = stack.enter_context(served(app))
        client.headers.update(ANN)
        yield House(client, direct, then, sender)


def ample_budget(clock: Clock, *_: float) -> QuestionBudget:
    """Return a budget that no question of these tests is refused for."""
    return QuestionBudget(clock, share=1000.0)


def fill(sender: Sender) -> None:
    """Of others: units that run, and the first that waits in queue lab."""
    apply = sender.shared.apply
    annotations = {"koord-queue/preempt-running-queueunits": "true"}
    for name in ("team", "lab"):
        apply(Engine.on_quota, elastic_quota(name, max={"cpu": 8}))
        apply(Engine.on_queue, queue(name, policy="Block", metadata={"annotations": annotations}))
    rows = (
        ("zebra", "giraffe", "team", 3, 1),
        ("default", "run", "team", 3, 2),
        ("zebra", "quagga", "lab", 6, 9),
        ("default", "big", "team", 4, 5),
        ("zebra", "okapi", "lab", 4, 9),
        ("default", "small", "lab", 4, 5),
    )
    for number, (namespace, name, quota, cpu, priority) in enumerate(rows):
        meta: Json = {
            "uid": f"{'lemur-' if namespace == 'zebra' else ''}{number}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": f"2026-11-01T10:00:0{number}Z",
            "labels": {"user": "lemur"} if namespace == "zebra" else {},
        }
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": meta["uid"]}
        body = queue_unit_body(
            name,
            namespace=namespace,
            quota=quota,
            requests={"cpu": cpu},
            metadata=meta,
            priority=priority,
            consumerRef=job,
        )
        if number < 3:
            grant = {"name": "main", "replicas": 1, "running": 1, "resources": {"cpu": str(cpu)}}
            body = with_status(body, phase="Running", admissions=[grant])
        apply(Engine.on_queue_unit, to_struct(QueueUnit, body))


def decide_all(sender: Sender) -> None:
    """Let both queues decide until they rest."""
    clock = sender.clock
    for name in ("team", "lab"):
        while not isinstance(sender.shared.decide_next(name, clock.monotonic(), clock.now()), Rest):
            clock.advance(0.1)


def written(sender: Sender, direct: httpx.Client) -> str:
    """Let all be recorded; return a time that the record knows."""
    sender.clock.advance(5)
    then = sender.clock.now().isoformat()

    def is_there() -> bool:
        sender.clock.advance(1)
        sender.feed.step()
        return direct.get("/debug/queues", params={"at": then}).status_code == 200

    until(is_there)
    return then


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_answer_names_units_of_others(house: House, path: str, data: st.DataObject) -> None:
    answer, operation = send(house.client, path, CONTRACT["paths"][path], data, house.then)
    check_declared(answer, operation)
    assert words_in(answer, OTHERS) == []


FOR_OTHERS: Final = {"/", "/debug/dump"}
"""A list of paths, and what only those may have who may read all namespaces."""

READS: Final = tuple(
    path
    for path, operations in CONTRACT["paths"].items()
    if "get" in operations and path not in FOR_OTHERS
)


NAMING: Final = {
    "/debug/log",
    "/debug/queues",
    "/debug/queues/{name}",
    "/debug/queues/{name}/forecast",
    "/debug/queueunits/{namespace}/{name}",
    "/debug/queueunits/{namespace}/{name}/explain",
}
"""What the insight program answers with names of others: who asks it is not its business."""


def test_what_starts_of_others_is_counted(house: House) -> None:
    edit = {"kind": "ElasticQuota", "namespace": "default", "name": "lab"}
    question = {"edits": [{**edit, "patch": {"spec": {"max": {"cpu": "100"}}}}]}
    answer = house.client.post("/debug/what-if", json=question)
    got = answer.raise_for_status().json()
    assert [each["unit"] for each in got["started"]] == ["default/small"]
    assert (got["startedCount"], words_in(answer, OTHERS)) == (2, [])


def test_a_job_behind_one_of_others_is_not_told_its_name(house: House) -> None:
    body = job_body("next", requests={"cpu": 4}, metadata={"labels": {QUOTA_NAME: "lab"}})
    answer = house.client.post("/debug/try", json=body)
    assert OF_OTHERS in answer.raise_for_status().text
    assert words_in(answer, OTHERS) == []


def test_a_report_of_a_namespace_takes_the_right_to_read_it(house: House) -> None:
    for namespace, want in (("zebra", 403), ("none", 403), ("default", 200)):
        answer = house.client.get("/debug/report", params={"namespace": namespace})
        assert (answer.status_code, words_in(answer, OTHERS)) == (want, [])


def at_their_place(path: str, namespace: str, name: str) -> str:
    """Return a path about a unit, or about the queue in which one of others waits."""
    name = name if "{namespace}" in path else "lab"
    return path.replace("{namespace}", namespace).replace("{name}", name)


@pytest.mark.parametrize("path", READS)
def test_what_is_asked_is_there(house: House, path: str) -> None:
    """Else the test above would find nothing."""
    where = at_their_place(path, "default", "big")
    for query in ({}, {"at": house.then}, {"changes": "true"}):
        answer = house.client.get(where, params=query)
        assert answer.status_code == 200, answer.text
        assert words_in(answer, OTHERS) == []
    query = {"at": house.then, "changes": "true"}
    named = words_in(house.direct.get(where, params=query), OTHERS)
    assert bool(named) == (path in NAMING)


@pytest.mark.parametrize("path", [path for path in READS if "{namespace}" in path])
@pytest.mark.parametrize("query", ["", "?at=now"])
def test_whether_a_unit_of_others_exists_is_not_told(house: House, path: str, query: str) -> None:
    query = query.replace("now", house.then)
    answers = [
        house.client.get(at_their_place(path, "zebra", name) + query) for name in ("okapi", "none")
    ]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].json() == answers[1].json()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("headers", "want"),
    [
        pytest.param({"authorization": ""}, 401, id="no identity"),
        pytest.param({"authorization": "Bearer made-up"}, 401, id="an unknown one"),
        pytest.param(BOB, 403, id="one without rights"),
    ],
)
def test_each_route_asks_who_it_is(
    house: House, path: str, headers: dict[str, str], want: int
) -> None:
    (method,) = CONTRACT["paths"][path]
    where = at_their_place(path, "default", "big")
    answer = house.client.request(method.upper(), where, headers=headers)
    assert (answer.status_code, words_in(answer, OTHERS)) == (want, [])
    assert answer.json()["detail"]


def test_a_follower_answers_from_its_own_engine_and_says_so(house: House) -> None:
    asked = [
        *((path, {}) for path in READS),
        *((path, {"at": house.then}) for path in READS if path != "/debug/insight"),
    ]
    house.sender.is_leader = False
    house.sender.feed.step()
    until(lambda: house.direct.get("/debug/insight").json()["leader"] is False)
    try:
        answers = [
            house.client.get(at_their_place(path, "default", "big"), params=query)
            for path, query in asked
        ]
        answers += [house.client.post(path, json=body) for path, body in QUESTIONS]
    finally:
        house.sender.is_leader = True
        house.sender.feed.step()
    assert [answer.text for answer in answers if answer.status_code != 200] == []
    got = [answer.json()["leader"] for answer in answers if "leader" in answer.json()]
    assert got == [False] * len(got)
    assert len(got) >= len(QUESTIONS) + 2 * 4


QUESTIONS: Final[tuple[tuple[str, Json], ...]] = (
    ("/debug/what-if", {"edits": []}),
    ("/debug/try", job_body("next", requests={"cpu": 1})),
)


OF_THE_SCHEDULER: Final = {
    "/debug/accounts",
    "/debug/budgets/forecast",
    "/debug/report",
    "/debug/user-limits",
}
"""What the scheduler answers by itself, or asks the insight program by another path."""

ALSO_THERE: Final = [
    *(path for path in READS if path.startswith("/debug/") and path not in OF_THE_SCHEDULER),
    "/debug/what-if",
]
"""What the insight program answers."""


@pytest.mark.parametrize("path", ALSO_THERE)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_insight_program_refuses_as_its_route_in_the_scheduler_does(
    house: House, path: str, data: st.DataObject
) -> None:
    """Its refusals are passed on."""
    check_declared(*send(house.direct, path, CONTRACT["paths"][path], data, house.then))
