"""The route of reports: what is asked of the record, and what is answered without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from anyio import from_thread
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from queue_insight.debug_api import report_routes
from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_insight.debug_api.insight_link import InsightLink
from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.report_routes import (
    NAMESPACES,
    NO_RECORD,
    ReportQuestion,
    Reports,
    readable_of,
)
from queue_insight.record.samples import HOUR
from queue_insight.record.use_sums import UseBlock, UseKey, UseRow, join_hour
from queue_insight.record.use_tables import TimedBlock, UseReach
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.ledger import Ledger
from shared_api.debug_api.access import EVERYWHERE, open_access
from shared_api.objects.quota_policy import Budget
from shared_api.question_errors import QuestionError
from shared_api.testing.virtual_clock import VirtualClock
from tests.properties.engine_kit import build_policy
from tests.queue_insight.debug_api.test_insight_link import answering
from tests.queue_scheduler.debug_api.test_account_views import BEGIN, Charge
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

THIS, LAST = "2027-01-15T10:00:00Z", "2027-01-15T09:00:00Z"
NOW = BEGIN + 3 * HOUR


def kit_with(*namespaces: str) -> ShellKit:
    """Return a scheduler whose ledger has counted one core of each namespace for three hours."""
    kit, ledger = ShellKit(), Ledger()
    ledger.advance(BEGIN)
    ledger.set_edges((BEGIN - 7200, BEGIN + HOUR, BEGIN + 2 * HOUR))
    for namespace in namespaces:
        account = Account("a", "q", namespace, "", f"of-{namespace}")
        ledger.on_charge(None, Charge(account, {"cpu": 1000}))
    ledger.advance(NOW)
    kit.shared._engine.usage.ledger = ledger  # noqa: SLF001 - before its first call
    return kit


@contextmanager
def asking(kit: ShellKit, folder: Path | None = None) -> Iterator[httpx.Client]:
    state = StateAnswers(kit.shared, lambda: True, report_now)
    app = build_whole_app(Answers(state), open_access, (), "0.0.0", InsightLink(folder))
    with served(app) as client:
        yield client


def report_now() -> datetime:
    return datetime.fromtimestamp(NOW, UTC)


def get(client: httpx.Client, **query: str) -> dict[str, Any]:
    answer = client.get("/debug/report", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ({}, "3"),
        ({"from": THIS}, "1"),
        ({"from": LAST}, "2"),
        ({"from": LAST, "to": THIS}, "1"),
        ({"to": THIS}, "2"),
        ({"to": LAST}, "1"),
    ],
)
def test_without_insight_the_ledger_has_totals_and_it_says_so(
    query: dict[str, str], want: str
) -> None:
    with asking(kit_with("ns")) as client:
        got = get(client, **query)
    assert (got["source"], got["note"]) == ("ledger", NO_RECORD)
    assert [(each["names"], each["used"]) for each in got["items"]] == [
        ({"user": "of-ns"}, {"cpu": want})
    ]
    assert got["completeFrom"] == "2027-01-15T08:00:00Z"
    assert got["fromTime"] == query.get("from")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"from": "2027-01-15T08:30:00Z"}, f"may be {LAST} or {THIS}"),
        ({"by": "kind"}, "kinds of jobs are not known"),
        ({"by": "color"}, "by"),
        ({"from": THIS, "to": THIS}, "is not after"),
        ({"from": "soon"}, "from"),
    ],
)
def test_what_is_not_known_is_refused(query: dict[str, str], said: str) -> None:
    with asking(kit_with("ns")) as client:
        answer = client.get("/debug/report", params=query)
    assert answer.status_code == 422
    assert said in str(answer.json()["detail"])


def test_of_quotas_it_says_what_is_left_of_their_budgets() -> None:
    kit = kit_with("ns")
    kit.add_quota("a", cpu=9)
    policy = build_policy("p", ["a"])
    budgets = (Budget(resource="cpu", hours=10, period="None"),)
    kit.shared.apply(
        Engine.on_quota_policy, replace(policy, spec=replace(policy.spec, budgets=budgets))
    )
    with asking(kit) as client:
        (of_quota,), (of_user,) = (get(client, by=by)["items"] for by in ("quota", "user"))
    assert (of_quota["budgetLeft"], of_user["budgetLeft"]) == ({"cpu": "7"}, None)


def test_a_report_of_one_namespace() -> None:
    with asking(kit_with("ns", "other")) as client:
        got = get(client, namespace="other", by="namespace")
    assert [each["names"] for each in got["items"]] == [{"namespace": "other"}]
    assert got["others"] == []


def test_without_accounts_it_says_how_to_turn_them_on() -> None:
    with asking(ShellKit()) as client:
        answer = client.get("/debug/report")
    assert answer.status_code == 404
    assert "accounts.enabled" in answer.json()["detail"]


def test_the_record_is_asked_for_what_may_be_read(tmp_path: Path) -> None:
    asked: list[ReportQuestion] = []

    def answer(request: Request) -> Response:
        if request.url.path == NAMESPACES:
            assert request.query_params["end"] == str(NOW)
            return JSONResponse({"namespaces": ["ns", "other"]})
        asked.append(msgspec.json.decode(from_thread.run(request.body), type=ReportQuestion))
        return JSONResponse({"detail": "stop here"}, 429)

    with answering(tmp_path, answer), asking(kit_with("ns"), tmp_path) as client:
        got = client.get("/debug/report", params={"by": "quota,user"})
    assert (got.status_code, got.json()["detail"]) == (429, "stop here")
    days = 30 * 24 * HOUR
    assert asked == [ReportQuestion(start=NOW - days, end=NOW, by=("quota", "user"))]


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ({"from": "0001-01-01T00:00:00+14:00"}, 0, NOW),
        ({"to": "0001-01-01T00:00:00+14:00"}, 0, 0),
        ({"to": "9999-12-31T23:59:59-14:00"}, NOW, NOW + 30 * 24 * HOUR),
    ],
)
def test_times_at_the_ends_of_the_calendar_are_no_error(
    tmp_path: Path, query: dict[str, str], start: int, end: int
) -> None:
    asked: list[tuple[str, str]] = []

    def answer(request: Request) -> Response:
        asked.append((request.query_params["start"], request.query_params["end"]))
        return JSONResponse({"detail": "stop here"}, 429)

    with answering(tmp_path, answer), asking(kit_with("ns"), tmp_path) as client:
        assert client.get("/debug/report", params=query).status_code == 429
    assert asked == [(str(start), str(end))]


def test_without_a_record_the_ledger_answers(tmp_path: Path) -> None:
    with (
        answering(tmp_path, lambda _: JSONResponse({"namespaces": None})),
        asking(kit_with("ns"), tmp_path) as client,
    ):
        assert get(client)["source"] == "ledger"


def test_the_record_is_asked_for_one_namespace(tmp_path: Path) -> None:
    asked: list[ReportQuestion] = []

    def answer(request: Request) -> Response:
        if request.url.path == NAMESPACES:
            return JSONResponse({"namespaces": ["ns", "other"]})
        asked.append(msgspec.json.decode(from_thread.run(request.body), type=ReportQuestion))
        return JSONResponse({"detail": "stop here"}, 429)

    with answering(tmp_path, answer), asking(kit_with("ns"), tmp_path) as client:
        client.get("/debug/report", params={"namespace": "ns"})
    assert [(each.readable, each.namespace) for each in asked] == [(("ns",), "ns")]


def test_while_insight_does_not_answer_the_report_says_so(tmp_path: Path) -> None:
    with asking(kit_with("ns"), tmp_path) as client:
        assert client.get("/debug/report").status_code == 503


def test_all_or_some_namespaces_may_be_read() -> None:
    assert readable_of(["b", "a"], lambda _: True) is None
    assert readable_of(["b", "a"], lambda each: each == "a") == ("a",)
    assert readable_of([], lambda each: each != EVERYWHERE) == ()


class Played:
    """A record of one hour."""

    def __init__(self, *rows: UseRow) -> None:
        self.block = join_hour([UseBlock(list(rows))])
        self.visits = 0

    def namespaces(self, start: int, end: int, now: int) -> list[str]:
        del start, end, now
        return ["ns"]

    def visit(self, start: int, end: int, now: int, take: Callable[[TimedBlock], None]) -> UseReach:
        del now
        self.visits += 1
        take(TimedBlock(start // HOUR * HOUR, HOUR, self.block))
        return UseReach(start, end, start, 0)


ROWS = [
    UseRow(UseKey("a", "q", "ns", "", f"u{number}", "Job"), {"cpu": 3_600_000})
    for number in range(3)
]


def reports_of(played: Played | None) -> tuple[Reports, VirtualClock]:
    clock = VirtualClock()
    return Reports(played, lambda: True, clock, QuestionBudget(clock, share=1000.0)), clock


def test_pages_of_a_report_are_added_up_once() -> None:
    played = Played(*ROWS)
    reports, clock = reports_of(played)
    end = reports.now()
    pages = []
    question = ReportQuestion(start=end - HOUR, end=end, by=("user",), limit=1)
    for offset in range(3):
        page = reports.answer(msgspec.structs.replace(question, offset=offset), "ann")
        pages += [each.names["user"] for each in page.items]
        clock.advance(1)
    assert (pages, played.visits) == (["u0", "u1", "u2"], 1)
    clock.advance(61)
    reports.answer(question, "ann")
    assert played.visits == 2
    reports.answer(msgspec.structs.replace(question, readable=()), "ann")
    assert played.visits == 3, "what one may read is no other's"


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_routes, "MAX_ROWS", 2)
    reports, _ = reports_of(Played(*ROWS))
    with pytest.raises(QuestionError, match="ask for less"):
        reports.answer(ReportQuestion(start=0, end=HOUR, by=("user",)), "ann")


def test_the_end_of_a_report_is_not_in_the_future() -> None:
    reports, _ = reports_of(Played(*ROWS))
    now = reports.now()
    view = reports.answer(ReportQuestion(start=now - HOUR, end=now + 5 * HOUR, by=("user",)), "a")
    assert view.to_time == "2026-11-01T10:00:00Z"
