"""The routes of the debug API over its real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from queue_scheduler.debug_api import views
from queue_scheduler.debug_api.additions import OFF, ViewT
from queue_scheduler.debug_api.app import build_app
from queue_scheduler.debug_api.parameters import MAX_OFFSET, MAX_PAGE
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.debug_api.views import QuotaTreePage
from shared_api.debug_api.access import open_access
from shared_api.debug_api.router_group import Guard
from shared_api.question_errors import Code, QuestionError
from tests.queue_scheduler.debug_api.watched_engine import WatchedEngine
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

PATHS = (
    "/",
    "/debug/queues",
    "/debug/queues/team",
    "/debug/queueunits/default/a",
    "/debug/quotas",
    "/apis/v1/queue",
    "/apis/v1/userquota",
    "/openapi.json",
)

PAGED = ("/debug/queues", "/debug/queues/team", "/debug/reservations", "/apis/v1/queue")


def build(kit: ShellKit, access: Guard = open_access, routes: tuple[Route, ...] = ()) -> Any:
    state = StateAnswers(kit.shared, lambda: True)
    return build_app(state, access, routes, "0.0.0")


@pytest.fixture
def client(kit: ShellKit) -> Iterator[httpx.Client]:
    kit.add_unit("a")
    with served(build(kit)) as client:
        yield client


def test_the_root_lists_every_path(kit: ShellKit) -> None:
    def answer(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("")

    with served(build(kit, routes=(Route("/debug/plugins/mine/x", answer),))) as client:
        found = client.get("/").json()["paths"]
    assert {"/debug/queueunits/{namespace}/{name}", "/debug/plugins/mine/x"} < set(found)
    assert found == sorted(found)


@pytest.mark.parametrize("path", PATHS)
def test_every_route_answers_json(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()


@pytest.mark.parametrize("path", [path for path in PATHS if path not in {"/", "/openapi.json"}])
def test_one_answer_is_built_at_a_time(kit: ShellKit, path: str) -> None:
    kit.add_unit("a")
    watched = WatchedEngine(kit.engine)
    state = StateAnswers(watched, lambda: True)
    watched.turn = state.turn
    with served(build_app(state, open_access, (), "0.0.0")) as client:
        assert client.get(path).status_code == 200
    assert watched.held
    assert all(watched.held)


def test_names_are_spelled_as_in_kubernetes(client: httpx.Client) -> None:
    (queue,) = client.get("/debug/queues").json()["items"]
    assert queue["name"] == "team"
    assert "lastRefusal" in queue
    assert queue["head"]["job"] == {"apiVersion": "", "kind": "", "name": ""}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("/debug/queues/nobody", 404),
        ("/debug/queueunits/default/nobody", 404),
        ("/docs", 404),
        ("/redoc", 404),
        ("/debug/queues?limit=0", 422),
        (f"/debug/queues?limit={MAX_PAGE + 1}", 422),
        ("/debug/queues/team?offset=-1", 422),
        ("/debug/queues/team?offset=x", 422),
        ("/debug/queues/", 404),
        *((f"{path}?offset={MAX_OFFSET + 1}", 422) for path in PAGED),
        *((f"{path}?offset={10**30}&limit=1", 422) for path in PAGED),
        (f"/debug/queues/{'x' * 254}", 422),
        (f"/debug/queueunits/{'x' * 254}/a", 422),
        (f"/debug/queueunits/default/{'x' * 254}", 422),
    ],
)
def test_invalid_parameters_are_refused(client: httpx.Client, path: str, want: int) -> None:
    answer = client.get(path)
    assert answer.status_code == want
    assert answer.json()["detail"]


def test_all_routes_are_read_only(client: httpx.Client) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client.request(method, "/debug/queues").status_code == 405


def test_queues_under_the_upstream_path_are_paged(kit: ShellKit, client: httpx.Client) -> None:
    for name in ("b", "c", "d"):
        kit.add_unit(name)
    kit.add_quota("empty", 1)
    seen: list[str] = []
    path = "/apis/v1/queue?limit=3"
    for want in (3, 1):
        answer = client.get(path)
        assert answer.json()["empty"] == []
        assert len(answer.json()["team"]) == want
        seen += [unit["name"] for unit in answer.json()["team"]]
        path = answer.links.get("next", {}).get("url", "")
    assert seen == ["a", "b", "c", "d"]
    assert path == ""


def test_every_route_is_guarded(kit: ShellKit) -> None:
    def nobody(_request: Request) -> None:
        raise HTTPException(401, "a token is needed")

    with served(build(kit, nobody)) as client:
        for path in PATHS:
            assert client.get(path).status_code == 401, path


def test_plugins_add_routes(kit: ShellKit) -> None:
    route = Route("/debug/plugins/mine/x", lambda _: PlainTextResponse("mine"))
    with served(build(kit, routes=(route,))) as client:
        assert client.get("/debug/plugins/mine/x").text == "mine"


def explode(_request: object) -> Any:
    raise ValueError("kaboom")


def lock_up(_request: Request) -> None:
    raise RuntimeError("no reviewer")


@pytest.mark.parametrize(
    ("path", "guard", "error"),
    [
        pytest.param("/debug/quotas", open_access, "ValueError", id="a route"),
        pytest.param("/debug/plugins/mine/x", open_access, "ValueError", id="a plugin's route"),
        pytest.param("/debug/queues", lock_up, "RuntimeError", id="the guard"),
    ],
)
def test_an_unexpected_error_is_json_and_one_log_line(
    kit: ShellKit, path: str, guard: Guard, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    route = Route("/debug/plugins/mine/x", explode)
    monkeypatch.setattr(views, "view_all_quotas", explode)
    state = StateAnswers(kit.shared, lambda: True)
    with (
        capture_logs() as logs,
        served(build_app(state, guard, (route,), "0")) as client,
    ):
        answer = client.get(path)
        assert answer.status_code == 500
        assert answer.json() == {"detail": f"{error} while answering; see the program's log"}
    assert [(line["log_level"], line["path"]) for line in logs] == [("error", path)]
    assert type(logs[0]["exc_info"]).__name__ == error


def test_a_plugin_refuses_in_json(kit: ShellKit) -> None:
    def refuse(_request: Request) -> Any:
        raise HTTPException(418, "not tea")

    with served(build(kit, routes=(Route("/debug/plugins/mine/x", refuse),))) as client:
        answer = client.get("/debug/plugins/mine/x")
    assert (answer.status_code, answer.json()) == (418, {"detail": "not tea"})


AT = "at=2026-11-01T10:00:00Z"
TIMED = (
    "/debug/queues",
    "/debug/queues/team",
    "/debug/queueunits/default/a",
    "/debug/quotas",
    "/debug/reservations",
)


@pytest.mark.parametrize("path", TIMED)
def test_earlier_times_are_refused_where_nobody_knows_them(client: httpx.Client, path: str) -> None:
    answer = client.get(f"{path}?{AT}")
    assert (answer.status_code, answer.json()) == (503, {"detail": OFF})


class Archive:
    """Adds a route, and knows quotas of the past."""

    def add_routes(self, app: FastAPI, access: Guard) -> None:
        app.get("/debug/archive")(lambda: {"has": "quotas"})

    def answer_past(self, request: Request, kind: type[ViewT]) -> ViewT:
        if kind is not QuotaTreePage:
            raise QuestionError(Code.NOT_FOUND, f"nothing is known of {request.query_params['at']}")
        return kind.model_validate({"leader": False, "items": [], "problems": []})


def test_others_add_routes_and_answer_about_earlier_times(kit: ShellKit) -> None:
    state = StateAnswers(kit.shared, lambda: True)
    with served(build_app(state, open_access, (), "0", [Archive()])) as client:
        assert client.get("/debug/archive").json() == {"has": "quotas"}
        assert "/debug/archive" in client.get("/").json()["paths"]
        assert client.get("/debug/quotas").json()["items"]
        assert client.get(f"/debug/quotas?{AT}").json() == {
            "leader": False,
            "items": [],
            "problems": [],
        }
        answer = client.get(f"/debug/queues?{AT}")
    assert answer.status_code == 404
    assert answer.json()["detail"] == "nothing is known of 2026-11-01T10:00:00Z"


def test_added_routes_are_guarded(kit: ShellKit) -> None:
    def nobody(_request: Request) -> None:
        raise HTTPException(401, "a token is needed")

    state = StateAnswers(kit.shared, lambda: True)
    with served(build_app(state, nobody, (), "0", [Archive()])) as client:
        assert client.get("/debug/archive").status_code == 401
