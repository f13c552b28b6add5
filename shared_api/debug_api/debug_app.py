"""The application to which both programs add their routes, all behind one guard.

Every refusal and failure is JSON with a `detail`, including exceptions of plugins' routes.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from shared_api.debug_api.json_body import Mistakes, describe_errors
from shared_api.debug_api.question_statuses import STATUSES
from shared_api.debug_api.router_group import Guard
from shared_api.debug_api.views import PathList, ProblemView
from shared_api.question_errors import QuestionError

log = structlog.get_logger("debug_api")


def build_debug_app(title: str, version: str, access: Guard) -> FastAPI:
    """Return an application that serves `/` and `/openapi.json`, and calls `access` first.

    The contract and the list of paths include the routes that are added to it later.
    """

    # FastAPI reads a dependency's annotations, and not every guard is a function that has some.
    def authorize(request: Request) -> None:
        access(request)

    # No documentation pages: FastAPI's load scripts from the public internet.
    app = FastAPI(
        title=title,
        version=version,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(authorize)],
        redirect_slashes=False,
        responses=problems(401, 403, 421, 422, 500, 503),
    )
    add_refusals(app)
    # As the app's own handler of `Exception` it would answer and raise again, and `app_server`
    # would log the exception a second time.
    app.add_middleware(ExceptionMiddleware, handlers={Exception: _answer_failure})

    @app.get("/")
    def paths() -> PathList:
        """All paths, those of plugins too."""
        found = {route.path for route in app.router.routes if isinstance(route, Route)}
        return PathList(paths=sorted(found))

    app.get("/openapi.json", include_in_schema=False)(app.openapi)
    return app


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the declaration of errors with these status codes, for a route's `responses`."""
    return {code: {"model": ProblemView} for code in codes}


def add_refusals(app: FastAPI, describe: Callable[[Mistakes], str] = describe_errors) -> None:
    """Let an application answer with a `detail` where its routes raise why there is no answer.

    Args:
        app: The application.
        describe: Returns what is said of wrong parameters.
    """

    def answer_invalid(_request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        detail = describe(error.errors())
        return JSONResponse({"detail": detail}, HTTPStatus.UNPROCESSABLE_ENTITY.value)

    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(QuestionError, _answer_question_error)


def _answer_question_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, QuestionError)
    after = error.retry_after
    headers = None if after is None else {"Retry-After": str(after)}
    return JSONResponse({"detail": error.detail}, STATUSES[error.code].value, headers)


def _answer_failure(request: Request, error: Exception) -> JSONResponse:
    """Return a short answer for an unexpected exception; the log has the traceback."""
    log.error("request failed", path=request.url.path, exc_info=error)
    detail = f"{type(error).__name__} while answering; see the program's log"
    return JSONResponse({"detail": detail}, HTTPStatus.INTERNAL_SERVER_ERROR)
