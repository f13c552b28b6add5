"""The files of the window. They are read once, so that no path of a request meets the disk."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

INDEX: Final = "index.html"
VIEWS: Final = (
    "/",
    "/queues/{name}",
    "/units/{namespace}/{name}",
    "/quotas/{name}",
    "/what-if",
    "/login",
)
"""Paths of views: the window reads its own path."""

NO_INDEX: Final = b"<!doctype html><title>Koord-Queue</title><p>The page is not installed."

TYPES: Final = {".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
"""Of suffixes that the machine's table may have otherwise."""


class StaticFile(NamedTuple):
    """A file, its media type, and its ETag."""

    content: bytes
    media_type: str
    etag: str


def read_files() -> dict[str, StaticFile]:
    """Return all files by their path below `static/`."""
    found = dict(_read(files("queue_scheduler.page") / "static"))
    found.setdefault(INDEX, _file(INDEX, NO_INDEX))
    return found


def static_routes(found: dict[str, StaticFile]) -> list[Route]:
    """Return the routes of views and of files, open to everybody who passes the browser_guard."""

    def index(request: Request) -> Response:
        return _answer(request, found[INDEX])

    def asset(request: Request) -> Response:
        file = found.get(request.path_params["path"])
        if file is None:
            raise HTTPException(HTTPStatus.NOT_FOUND.value, "there is no such file")
        return _answer(request, file)

    return [*(Route(path, index) for path in VIEWS), Route("/assets/{path:path}", asset)]


def _answer(request: Request, file: StaticFile) -> Response:
    # To be asked for again each time: names have no version, and modules must fit each other.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    known = request.headers.get("if-none-match", "")
    if file.etag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED.value, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, StaticFile]]:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        path = prefix + each.name
        if each.is_dir():
            yield from _read(each, f"{path}/")
        else:
            yield path, _file(path, each.read_bytes())


def _file(path: str, content: bytes) -> StaticFile:
    suffix = "." + path.rpartition(".")[2]
    guessed = TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "text/plain"
    return StaticFile(content, guessed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
