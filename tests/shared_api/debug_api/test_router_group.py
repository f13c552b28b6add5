"""Groups of routes: prefixes nest, guards are inherited, `:name` is a parameter."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from shared_api.debug_api.router_group import RouterGroup, guarded
from tests.served_app import served


def echo(request: Request) -> Response:
    return PlainTextResponse(" ".join(f"{k}={v}" for k, v in sorted(request.path_params.items())))


def refusing(status: int) -> Callable[[Request], None]:
    def guard(_request: Request) -> None:
        raise HTTPException(status)

    return guard


def request_of(path: str) -> Request:
    return Request({"type": "http", "path": path, "headers": [], "path_params": {}})


def test_paths_are_prefixed_and_parameters_are_read() -> None:
    group = RouterGroup("/debug/plugins/mine/")
    group.get("/units/:namespace/:name", echo)
    group.group("/admin").group("/deep").get("/x", echo)
    with served(Starlette(routes=group.routes())) as client:
        assert client.get("/debug/plugins/mine/units/team/a").text == "name=a namespace=team"
        assert client.get("/debug/plugins/mine/admin/deep/x").status_code == 200
        assert client.get("/units/team/a").status_code == 404
        assert client.post("/debug/plugins/mine/units/team/a").status_code == 405


@pytest.mark.parametrize(
    ("path", "want"), [("/open", None), ("/inner/closed", 403), ("/inner/below/closed", 403)]
)
def test_guards_apply_to_their_group_and_all_nested_ones(path: str, want: int | None) -> None:
    group = RouterGroup("")
    group.get("/open", echo)
    inner = group.group("/inner", guards=[refusing(403)])
    inner.get("/closed", echo)
    inner.group("/below", guards=[refusing(418)]).get("/closed", echo)
    routes = {route.path: route for route in group.routes()}
    got = None
    try:
        routes[path].endpoint(request_of(path))
    except HTTPException as refused:
        got = refused.status_code
    assert got == want


def test_the_guards_of_the_caller_run_first() -> None:
    group = RouterGroup("")
    group.group("/a", guards=[refusing(418)]).get("/b", echo)
    (route,) = group.routes([refusing(401)])
    with pytest.raises(HTTPException) as caught:
        route.endpoint(request_of("/a/b"))
    assert caught.value.status_code == 401


def test_a_handler_is_not_called_if_a_guard_refuses() -> None:
    reached: list[Request] = []

    def handler(request: Request) -> Response:
        reached.append(request)
        return Response()

    with pytest.raises(HTTPException):
        guarded(handler, [refusing(401)])(request_of("/"))
    guarded(handler, [])(request_of("/"))
    assert len(reached) == 1
