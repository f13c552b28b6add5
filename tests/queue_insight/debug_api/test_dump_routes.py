"""The route of dumps over its real server: what it gives, and who may have it."""

from __future__ import annotations

from http import HTTPStatus

import httpx
import pytest

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.dump_routes import FINISHED_RUNS, PATH, read_finished_runs
from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.dump.codec import decode_dump
from queue_scheduler.debug_api.additions import ViewT
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.settings import EngineSettings
from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.reviews import ReviewResult
from shared_api.authorization.rights import Right
from shared_api.debug_api.access import ReviewedAccess, open_access
from shared_api.debug_api.json_body import PostedBody
from shared_api.debug_api.router_group import Guard
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

ANN = {"authorization": "Bearer ann"}
SETTINGS = EngineSettings(oversell_rate="5/4")


def ask(kit: ShellKit, query: str = "", access: Guard = open_access) -> httpx.Response:
    answers = Answers(StateAnswers(kit.shared, lambda: True), settings=SETTINGS)
    with served(build_whole_app(answers, access, (), "0.0.0")) as client:
        return client.get(PATH + query, headers=ANN)


@pytest.mark.parametrize(("query", "encoding"), [("", ""), ("?gzip=true", "gzip")])
def test_a_dump_has_what_the_engine_believes(kit: ShellKit, query: str, encoding: str) -> None:
    kit.add_unit("waits", cpu=9)
    answer = ask(kit, query)
    dump = decode_dump(answer.content, "0.0.0")
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers.get("content-encoding", "") == encoding
    assert [unit.metadata.key for unit in dump.units] == ["default/waits"]
    assert (dump.leader, dump.settings, dump.anonymized) == (True, SETTINGS, False)


def test_the_engine_goes_on_as_if_nobody_had_asked(kit: ShellKit) -> None:
    kit.add_unit("runs", cpu=3)
    decision = kit.dequeue()
    ask(kit)
    assert kit.shared.ask(lambda engine: engine.open_record(decision)) is not None


class OtherVersion(InsightLink):
    """An insight program whose runs have other fields."""

    def __init__(self) -> None: ...

    def ask_at(
        self, target: str, kind: type[ViewT], body: PostedBody | None = None, caller: str = ""
    ) -> ViewT:
        del body, caller
        assert target == FINISHED_RUNS
        return kind.model_validate({"runs": [{"ended": "yesterday"}]})


def test_runs_that_cannot_be_read_are_left_out() -> None:
    assert read_finished_runs(OtherVersion()) == ()


class Reviewer(Authorizer):
    """Knows one user, who has these rights."""

    def __init__(self, *rights: str) -> None:
        self._granted = rights

    def judge_bearer(self, authorization: str, right: Right) -> ReviewResult:
        if str(right) in self._granted:
            return ReviewResult(HTTPStatus.OK, "")
        return ReviewResult(HTTPStatus.FORBIDDEN, f"ann may not {right}")

    def cached_user(self, authorization: str) -> str:
        return "ann"


@pytest.mark.parametrize(
    ("rights", "want"),
    [
        pytest.param(
            (f"get {PATH}",),
            (403, "ann may not list queueunits in all namespaces"),
            id="no right to read all units",
        ),
        pytest.param(
            ("list queueunits in all namespaces",),
            (403, f"ann may not get {PATH}"),
            id="no right to ask the path",
        ),
        pytest.param(
            (f"get {PATH}", "list queueunits in all namespaces"), (200, None), id="both rights"
        ),
    ],
)
def test_who_may_have_it(
    kit: ShellKit, rights: tuple[str, ...], want: tuple[int, str | None]
) -> None:
    answer = ask(kit, access=ReviewedAccess(Reviewer(*rights)))
    assert (answer.status_code, answer.json().get("detail")) == want
