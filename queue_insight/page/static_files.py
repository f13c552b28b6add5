"""The files of the window. They are read once, so that no path of a request meets the disk.

What others have published (`vendor/`) is served below a name with a hash of its contents, and kept
by browsers: another version has another name. All else is asked for again each time, and answered
with 304 while it is the same: its names have no version, and modules must fit each other.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Awaitable, Iterator
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

INDEX: Final = "index.html"
NOT_FOUND: Final = HTTPStatus.NOT_FOUND.value
VIEWS: Final = (
    "/",
    "/queues/{name}",
    "/units/{namespace}/{name}",
    "/quotas/{name}",
    "/unqueued",
    "/what-if",
    "/login",
    "/over-time",
    "/queues/{name}/over-time",
    "/quotas/{name}/over-time",
    "/jobs",
    "/report",
)
"""Paths of views: the window reads its own path."""

OF_QUOTA: Final = re.compile(rb"/quotas/[^/]+(/over-time)?")
"""The path of a quota's views as it was sent: its name may have encoded slashes, which routes find
decoded, and take for other paths."""

NO_VIEWS: Final = ("/page/", "/assets/")
"""Prefixes of paths that are never views: what is missing there is answered with JSON."""

NO_INDEX: Final = b"<!doctype html><title>Koord-Queue</title><p>The page is not installed."

TYPES: Final = {".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
"""The media types of suffixes for which the machine's table may differ."""


VENDOR: Final = "vendor/"
REVALIDATED: Final = "no-cache"
KEPT: Final = "max-age=31536000, immutable"
"""A year, the longest that caches take seriously (RFC 9111 names no limit)."""
_HASH_DIGITS: Final = 16


class StaticFile(NamedTuple):
    """A file, its media type, its ETag, and for how long a browser keeps it."""

    content: bytes
    media_type: str
    etag: str
    cache: str = REVALIDATED


def read_files() -> dict[str, StaticFile]:
    """Return all files by their path below `/assets/`."""
    contents = dict(_read(files("queue_insight.page") / "static"))
    contents.setdefault(INDEX, NO_INDEX)
    vendored = {path: each for path, each in contents.items() if path.startswith(VENDOR)}
    named = f"vendor-{_hash_of(vendored)}/"
    found = {
        path: _file(path, each.replace(f"/{VENDOR}".encode(), f"/{named}".encode()))
        for path, each in contents.items()
        if path not in vendored
    }
    for path, each in vendored.items():
        kept = named + path.removeprefix(VENDOR)
        found[kept] = _file(kept, each)._replace(cache=KEPT)
    return found


def _hash_of(contents: dict[str, bytes]) -> str:
    """Return a hash of several files: modules among them import each other by name."""
    digest = hashlib.sha256()
    for path, each in sorted(contents.items()):
        digest.update(f"{path} {len(each)}\n".encode())
        digest.update(each)
    return digest.hexdigest()[:_HASH_DIGITS]


def static_routes(found: dict[str, StaticFile]) -> list[Route]:
    """Return the routes of views and of files, open to all clients that pass the browser_guard."""

    def index(request: Request) -> Response:
        return _answer(request, found[INDEX])

    def asset(request: Request) -> Response:
        file = found.get(request.path_params["path"])
        if file is None:
            raise HTTPException(NOT_FOUND, "there is no such file")
        return _answer(request, file)

    return [*(Route(path, index) for path in VIEWS), Route("/assets/{path:path}", asset)]


def elsewhere(found: dict[str, StaticFile]) -> ASGIApp:
    """Return what answers paths that no route has: 404, for a browser with the window.

    The window says that it has no such view, and leads back. A view of a quota whose name has
    slashes comes here as well.
    """

    def answer_missing(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        is_view = scope["method"] in {"GET", "HEAD"} and not scope["path"].startswith(NO_VIEWS)
        page = found[INDEX]
        if is_view and OF_QUOTA.fullmatch(scope.get("raw_path") or b""):
            return _answer(Request(scope), page)(scope, receive, send)
        answer = (
            Response(page.content, NOT_FOUND, {"Cache-Control": page.cache}, page.media_type)
            if is_view
            else JSONResponse({"detail": "There is nothing at this address."}, NOT_FOUND)
        )
        return answer(scope, receive, send)

    return answer_missing


def _answer(request: Request, file: StaticFile) -> Response:
    headers = {"ETag": file.etag, "Cache-Control": file.cache}
    known = request.headers.get("if-none-match", "")
    if file.etag in (each.strip().removeprefix("W/") for each in known.split(",")):
        return Response(status_code=HTTPStatus.NOT_MODIFIED.value, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _read(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        path = prefix + each.name
        if each.is_dir():
            yield from _read(each, f"{path}/")
        else:
            yield path, each.read_bytes()


def _file(path: str, content: bytes) -> StaticFile:
    suffix = "." + path.rpartition(".")[2]
    guessed = TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "text/plain"
    return StaticFile(content, guessed, f'"{hashlib.sha256(content).hexdigest()[:32]}"')
