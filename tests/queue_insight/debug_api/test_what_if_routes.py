"""The route of what-if questions over its real server: its answers, and who may ask."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from queue_insight.debug_api import what_if_routes
from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.engine_state import State
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.what_if_routes import WhatIfAnswers, WhatIfQuestion
from queue_insight.what_if.horizon import Horizon
from queue_insight.what_if.measures import LEAST_COMPARED
from queue_scheduler.debug_api.additions import OFF
from queue_scheduler.debug_api.hiding import OF_OTHERS, hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import ResourceRight, Right
from shared_api.caller_shares import token_key
from shared_api.debug_api.access import LocalAccess, ReviewedAccess, open_access
from shared_api.debug_api.debug_app import build_debug_app
from shared_api.debug_api.router_group import Guard
from shared_api.objects.quota_policy import UserLimit
from shared_api.testing.virtual_clock import VirtualClock
from shared_api.well_known_labels import ENABLE_PREEMPTION, PREEMPT_RUNNING, QUOTA_NAME
from tests.properties.engine_kit import build_policy, running
from tests.queue_insight.insight.changes_kit import SINCE
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

PATH: Final = "/debug/what-if"
LARGER: Final = {"kind": "ElasticQuota", "name": "team", "patch": {"spec": {"max": {"cpu": 9}}}}


def build(kit: ShellKit, access: Guard = open_access) -> Any:
    return build_whole_app(Answers(StateAnswers(kit.shared, lambda: True)), access, (), "0.0.0")


@pytest.fixture
def full(kit: ShellKit) -> ShellKit:
    """Return a quota of four cores, of which a unit has three, and one that wants two."""
    kit.add_unit("busy", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    return kit


@pytest.fixture
def client(full: ShellKit) -> Iterator[httpx.Client]:
    with served(build(full)) as client:
        yield client


def ask(client: httpx.Client, *edits: object, **more: Any) -> Any:
    answer = client.post(PATH, json={"edits": edits, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_edit_is_answered_with_what_starts(client: httpx.Client) -> None:
    found = ask(client, LARGER)
    (start,) = found["started"]
    assert (start["unit"], start["queue"], start["quota"]) == ("default/big", "team", "team")
    assert start["before"]["missing"] == "1"
    assert (found["validated"], found["complete"], found["leader"]) == (False, True, True)
    assert [found[f"{name}Count"] for name in ("started", "refused", "evicted")] == [1, 0, 0]


def test_without_an_insight_program_only_a_horizon_is_refused(client: httpx.Client) -> None:
    body = {"edits": [LARGER], "horizonSeconds": 3600}
    answer = client.post(PATH, json=body)
    detail = f"{OFF}; {what_if_routes.AT_ONCE}"
    assert (answer.status_code, answer.json()["detail"]) == (503, detail)
    found = ask(client, LARGER)
    assert (found["horizon"], found["noHorizon"]) == (None, "horizonSeconds was not given")


class FewPaths:
    """Plays so many futures; stands for a machine that is too busy for more."""

    def __init__(self, count: int) -> None:
        self._count = count

    def why_no_forecast(self) -> str:
        return ""

    def answer(self, state: State, edits: object, horizon_seconds: float, seed: int) -> Horizon:
        return Horizon(seconds=horizon_seconds, paths=self._count, basis="", comparisons={})


@pytest.mark.parametrize(
    ("count", "want"),
    [
        pytest.param(0, "no futures could be played in time, and fewer than 5 are", id="none"),
        pytest.param(1, "1 future could be played in time, ", id="one"),
        pytest.param(2, "2 futures could be played in time, ", id="two"),
        pytest.param(LEAST_COMPARED, "", id="enough"),
    ],
)
def test_too_few_futures_tell_nothing_and_say_so(full: ShellKit, count: int, want: str) -> None:
    def source() -> State:
        return State(full.shared.fork(), Moment(full.clock.monotonic(), full.clock.now()))

    budget = QuestionBudget(full.clock)
    what_if = WhatIfAnswers(source, lambda: True, budget, FewPaths(count))
    question = WhatIfQuestion.model_validate({"edits": [LARGER], "horizonSeconds": 60})
    found = what_if.answer(question, "me")
    assert found.no_horizon.startswith(want)
    assert (found.horizon is None, bool(found.no_horizon)) == (bool(want), bool(want))
    assert found.started_count == 1


def test_the_json_patch_of_a_change_is_an_edit_as_it_is(full: ShellKit) -> None:
    limit = UserLimit(users=("*",), running=1)
    full.shared.apply(Engine.on_quota_policy, build_policy("p", ["team"], limit))
    path = "/spec/userLimits/0/running"
    operations = [
        {"op": "test", "path": path, "value": 1},
        {"op": "replace", "path": path, "value": 9},
    ]
    edit = {
        "kind": "QuotaPolicy",
        "namespace": "koord-queue",
        "name": "p",
        "operations": operations,
    }
    raised = {"kind": "ElasticQuota", "name": "team", "patch": {"spec": {"max": {"cpu": "9"}}}}
    with served(build(full)) as client:
        alone, both = ask(client, raised), ask(client, raised, edit)
        wrong = client.post("/debug/what-if", json={"edits": [edit | {"operations": [{}] * 65}]})
    assert alone["startedCount"] < both["startedCount"]
    assert wrong.status_code == 422


def test_a_missing_patch_is_not_a_null(client: httpx.Client) -> None:
    gone = {"kind": "ElasticQuota", "name": "team"}
    assert client.post(PATH, json={"edits": [gone]}).status_code == 422
    found = ask(client, {**gone, "patch": None})
    assert [each["unit"] for each in found["refused"]] == ["default/big"]


def test_what_is_not_read_is_named(client: httpx.Client) -> None:
    found = ask(client, {**LARGER, "patch": {"spec": {"maximum": 3}}})
    assert found["unread"] == ["edits[0].patch.spec.maximum"]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            {"edits": [LARGER, {"kind": "Pod", "patch": {}}]},
            "edits[1].kind: must be one of",
            id="an edit of a kind that cannot be tried",
        ),
        pytest.param(
            {"edits": [{**LARGER, "patch": {"spec": {"max": {"cpu": "much"}}}}]},
            "edits[0].patch.spec.max.cpu: ",
            id="an amount that cannot be read",
        ),
        pytest.param({"edits": [{"kind": 3}]}, "edits.0.kind: ", id="a field of another type"),
        pytest.param({"edits": [{**LARGER, "x": 1}]}, "edits.0.x: ", id="an unknown field"),
        pytest.param({"edits": [LARGER] * 101}, "edits: List should have", id="too many edits"),
        pytest.param({"edits": [], "horizonSeconds": 0}, "horizonSeconds: ", id="no horizon"),
        pytest.param({}, "edits: Field required", id="no edits"),
    ],
)
def test_a_wrong_question_is_refused_by_its_field(
    client: httpx.Client, body: object, want: str
) -> None:
    answer = client.post(PATH, json=body)
    assert (answer.status_code, answer.json()["detail"][: len(want)]) == (422, want)


@pytest.mark.parametrize(
    ("headers", "body", "want"),
    [
        pytest.param({"content-type": "text/plain"}, b"{}", 415, id="a form of a page"),
        pytest.param({}, b"{}", 415, id="no type"),
        pytest.param(
            {"content-type": "application/json", "origin": "https://evil.example.com"},
            *(b"{}", 403),
            id="a page of another site",
        ),
        pytest.param(
            {"content-type": "application/json", "sec-fetch-site": "cross-site"},
            *(b"{}", 403),
            id="a browser that says so",
        ),
        pytest.param(
            {"content-type": "application/json", "host": "evil.example.com"},
            *(b"{}", 421),
            id="a name that was made to point here",
        ),
        pytest.param(
            {"content-type": "application/json"}, b" " * (2**20 + 1), 413, id="a long body"
        ),
        pytest.param({"content-type": "application/json"}, b"{}", 422, id="no such thing"),
    ],
)
def test_a_page_in_a_browser_cannot_ask(
    full: ShellKit, headers: dict[str, str], body: bytes, want: int
) -> None:
    with served(build(full, LocalAccess())) as client:
        answer = client.post(PATH, content=body, headers=headers)
        assert answer.status_code == want, answer.text
        assert client.options(PATH, headers=headers).status_code in {405, 421}


def test_each_kind_of_question_has_a_budget_of_its_own(
    full: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_insight.debug_api.question_budget.MAX_SAVED", 0.001)
    stingy = partial(QuestionBudget, share=0.0001)
    monkeypatch.setattr("queue_insight.debug_api.answers.QuestionBudget", stingy)
    with served(build(full)) as client:
        assert client.post(PATH, json={"edits": [LARGER]}).status_code == 200
        answer = client.post(PATH, json={"edits": [LARGER]})
        assert (answer.status_code, "retry-after" in answer.headers) == (429, True)
        assert client.get("/debug/queues").status_code == 200


class Reviewer(Authorizer):
    """Knows one user, who may list the units of some namespaces and ask the question."""

    def __init__(self, *namespaces: str) -> None:
        self.asked: list[str] = []
        self._namespaces = namespaces

    def judge_bearer(self, authorization: str, right: Right) -> ReviewResult:
        if isinstance(right, ResourceRight):
            may = right.namespace in self._namespaces
            return ReviewResult(HTTPStatus.OK if may else HTTPStatus.FORBIDDEN)
        self.asked.append(str(right))
        known = authorization == "Bearer ann"
        return ReviewResult(HTTPStatus.OK if known else HTTPStatus.UNAUTHORIZED, "who?")

    def cached_user(self, authorization: str) -> str:
        return "ann"


def test_the_right_is_to_create_on_the_path(full: ShellKit) -> None:
    reviewer = Reviewer("default")
    with served(build(full, ReviewedAccess(reviewer))) as client:
        assert client.post(PATH, json={"edits": [LARGER]}).status_code == 401
        found = client.post(PATH, json={"edits": [LARGER]}, headers={"authorization": "Bearer ann"})
    assert reviewer.asked == [f"create {PATH}"] * 2
    assert [each["unit"] for each in found.json()["started"]] == ["default/big"]


def test_units_of_others_are_counted_and_not_named(full: ShellKit) -> None:
    marks = {ENABLE_PREEMPTION: "true", PREEMPT_RUNNING: "true"}
    edits = [
        {"kind": "Queue", "name": "team", "patch": {"metadata": {"annotations": marks}}},
        {
            "kind": "QueueUnit",
            "namespace": "mine",
            "name": "high",
            "patch": {
                "metadata": {"labels": {QUOTA_NAME: "team"}},
                "spec": {"priority": 9, "request": {"cpu": 2}},
            },
        },
    ]
    full.shared.apply(Engine.on_queue_unit, running(full.learn("busy"), 10**9, since=SINCE))
    with served(build(full, ReviewedAccess(Reviewer("mine")))) as client:
        answer = client.post(PATH, json={"edits": edits}, headers={"authorization": "Bearer ann"})
        found = answer.json()
    assert [each["unit"] for each in found["started"]] == ["mine/high"]
    assert (found["evicted"], found["evictedCount"], found["refused"]) == ([], 1, [])
    assert found["lostHours"] is None, "the one unit's own run time"
    assert "default/" not in answer.text


def test_whom_a_unit_leaves_for_is_not_named_either(full: ShellKit) -> None:
    view = view_of(full)
    shown = hide(view, lambda namespace: namespace == "mine")
    assert [each.for_unit for each in shown.evicted] == [OF_OTHERS]
    assert shown.spared == ["mine/kept"]
    assert shown.lost_hours == view.lost_hours, "all that leave may be read"


def test_each_caller_has_a_budget_of_its_own(full: ShellKit) -> None:
    clock = VirtualClock()
    asked: list[str] = []
    budget = QuestionBudget(clock)

    def answer(_: what_if_routes.WhatIfQuestion, caller: str) -> what_if_routes.WhatIfView:
        asked.append(caller)
        with budget.spend(caller):
            clock.advance(40.0)
        found: what_if_routes.WhatIfView = view_of(full)
        return found

    app = build_debug_app("it", "0", open_access)
    what_if_routes.add_what_if(app, answer, open_access)
    with served(app) as client:
        codes = [
            client.post(PATH, json={"edits": []}, headers=headers).status_code
            for headers in ({"authorization": f"Bearer {each}"} for each in ("a", "a", "b"))
        ]
    assert codes == [200, 429, 200]
    assert asked == [token_key("a"), token_key("a"), token_key("b")]


def test_edits_that_cost_too_much_are_refused_at_once(client: httpx.Client) -> None:
    edit = {"kind": "Node", "name": "n1", "copies": 5000}
    answer = client.post(PATH, json={"edits": [edit] * 100})
    detail = "edits[1].copies: all edits together may add at most 5000 nodes"
    assert (answer.status_code, answer.json()) == (422, {"detail": detail})


def view_of(kit: ShellKit) -> Any:
    answers = Answers(StateAnswers(kit.shared, lambda: True))
    view = answers.what_if(what_if_routes.WhatIfQuestion(edits=[]), "ann")
    left = what_if_routes.EvictedView(
        unit="mine/busy",
        queue="team",
        quota="team",
        reason="Preempted",
        for_unit="labs/x",
        lost_hours=0,
    )
    return view.model_copy(update={"evicted": [left], "spared": ["mine/kept", "labs/kept"]})


def test_units_of_others_cannot_be_edited(full: ShellKit) -> None:
    edit = {"kind": "QueueUnit", "namespace": "default", "name": "busy", "end": True}
    with served(build(full, ReviewedAccess(Reviewer("mine")))) as client:
        answer = client.post(
            PATH, json={"edits": [LARGER, edit]}, headers={"authorization": "Bearer ann"}
        )
    assert (answer.status_code, answer.json()["detail"]) == (
        403,
        "edits[1].namespace: you may not list the units of 'default'",
    )


def test_a_question_changes_nothing(full: ShellKit, client: httpx.Client) -> None:
    before = client.get("/debug/queueunits/default/big").json()
    ask(client, LARGER, {"kind": "Queue", "name": "team", "patch": None})
    assert client.get("/debug/queueunits/default/big").json() == before
    assert full.used() == 3000


def guard(_request: Request) -> None:
    raise HTTPException(403, "no")


def test_the_guard_is_asked_before_the_body_is_read(full: ShellKit) -> None:
    with served(build(full, guard)) as client:
        answer = client.post(PATH, content=b"no json", headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["detail"]) == (403, "no")
