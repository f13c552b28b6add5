"""The debug API of a program: at `--server`, or behind a port-forward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from koord_queue.answers.decoding import Answer, decode
from koord_queue.answers.pending import Pending, pending_of
from koord_queue.answers.queues import Queue
from koord_queue.answers.units import Unit
from koord_queue.errors import CommandError
from koord_queue.reach.cluster import JSON, YAML, Cluster, Query
from shared_api.client.connection_settings import (
    FixedLogin,
    Login,
    SettingsError,
    connection_settings,
)
from shared_api.client.errors import ApiError, status_error
from shared_api.client.http_transport import HttpTransport

if TYPE_CHECKING:
    from contextlib import ExitStack

    from koord_queue.reach.choice import Choice
    from shared_api.client.transport import Response
    from shared_api.process.clock import Clock

PROBLEM: Final = "Problem"
"""Reason of an error of the debug API, which has none."""
UNREACHED_STEP: Final = "Check --server (or the variable KOORD_QUEUE_SERVER), and the network."
PAGE: Final = 1000
"""The most that a page of the debug API has."""
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine."""


class _Page(Answer, frozen=True):
    """A page of queues, or of the units of one; `others`: units of it that are not named."""

    items: tuple[msgspec.Raw, ...] = ()
    units: tuple[msgspec.Raw, ...] = ()
    others: int = 0


def debug_pages(
    ask: Callable[[str, Query], bytes], path: str, query: Query = ()
) -> Iterator[msgspec.Raw]:
    """Yield the items of all pages of a list.

    Args:
        ask: Returns the answer of a route.
        path: `/debug/queues`, or that of one queue, whose units are yielded.
        query: Of each request.
    """
    offset = 0
    while True:
        more = (("offset", str(offset)), ("limit", str(PAGE)))
        page = decode(ask(path, (*query, *more)), _Page)
        found = page.items or page.units
        yield from found
        offset += PAGE
        # Units that are not named have their places on the page all the same.
        if len(found) + page.others < PAGE:
            return


class DebugApi:
    """A `Source` with all routes.

    Args:
        server: Where they are; its errors say `detail`.
    """

    def __init__(self, server: Cluster) -> None:
        self._server = server

    def pending(self, namespace: str | None, queue: str | None) -> list[Pending]:
        """Return the units that wait. See `Source`."""
        queues = debug_pages(self.debug, "/debug/queues")
        names = [queue] if queue else [decode(bytes(raw), Queue).name for raw in queues]
        units = (
            decode(bytes(raw), Unit)
            for name in names
            for raw in debug_pages(self.debug, f"/debug/queues/{name}")
        )
        return [pending_of(unit) for unit in units if namespace in {None, unit.namespace}]

    def explain(self, namespace: str, name: str, *, changes: bool = False) -> bytes:
        """Return why a unit waits. See `Source`."""
        query: Query = (("changes", "true"),) if changes else ()
        return self.debug(f"/debug/queueunits/{namespace}/{name}/explain", query)

    def forecast(self, namespace: str, name: str) -> bytes:
        """Return when a unit starts. See `Source`."""
        return self.debug(f"/debug/queueunits/{namespace}/{name}/forecast")

    def queue_forecast(self, queue: str) -> bytes:
        """Return when the units of a queue start. See `Source`."""
        return self.debug(f"/debug/queues/{queue}/forecast")

    def try_(
        self,
        manifest: bytes,
        namespace: str,
        *,
        is_json: bool,
        changes: bool = False,
        defaulted: bool = False,
    ) -> bytes:
        """Return what becomes of a manifest. See `Source`."""
        asked = {"changes": changes, "defaulted": defaulted}
        query = (
            ("namespace", namespace),
            *((name, "true") for name, is_set in asked.items() if is_set),
        )
        return self._server.send("POST", "/debug/try", manifest, JSON if is_json else YAML, query)

    def what_if(self, question: bytes) -> bytes:
        """Return what edits would change. See `Source`."""
        return self._server.send("POST", "/debug/what-if", question)

    def debug(self, path: str, query: Query = ()) -> bytes:
        """Return the answer of a route. See `Source`."""
        return self._server.get(path, query)


def open_debug_api(choice: Choice, clock: Clock, connections: ExitStack) -> DebugApi:
    """Return the debug API at `--server`; `connections` closes its own at the end.

    Raises:
        CommandError: Its address, token or authorities cannot be used.
    """
    assert choice.server
    if urlsplit(choice.server).username is not None:
        raise CommandError(
            "--server names a user or a password, which would be shown in lists of processes",
            "Write a token into a file, and name it with --token-file.",
        )
    token = _content(choice.token_file, "--token-file").strip()
    ca = _content(choice.ca_file, "--ca-file").encode()
    if token and is_readable_on_its_way(choice.server):
        raise CommandError(
            f"{choice.server} is no https address, and everybody on the way could read the token",
            "Write https://, or leave --token-file out.",
        )
    login = Login(authorization=f"Bearer {token}" if token else "", ca_pem=ca)
    return _open(choice.server, login, clock, connections)


def is_readable_on_its_way(server: str) -> bool:
    """Return whether requests to a server leave this machine without TLS."""
    parts = urlsplit(server)
    return parts.scheme != "https" and parts.hostname not in LOOPBACK


def _content(file: str | None, option: str) -> str:
    """Return what a file of an option has; "" without one."""
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{option} {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{option} {file} is no text") from error


def open_forwarded(url: str, clock: Clock, connections: ExitStack) -> DebugApi:
    """Return the debug API behind a port-forward, which asks for no token.

    `connections` closes its own at the end.
    """
    return _open(url, Login(), clock, connections)


def _open(server: str, login: Login, clock: Clock, connections: ExitStack) -> DebugApi:
    try:
        transport = HttpTransport(connection_settings(server, FixedLogin(login)), clock)
    except SettingsError as error:
        raise CommandError(f"--server {server}: {error}") from error
    connections.callback(transport.close)
    reached = Cluster(transport, "", server, read_error=read_problem, unreached_step=UNREACHED_STEP)
    return DebugApi(reached)


class _Problem(msgspec.Struct):
    detail: str = ""


def read_problem(answer: Response) -> ApiError:
    """Return what a refusal of the debug API says: `{"detail": ...}`."""
    try:
        said = msgspec.json.decode(answer.body, type=_Problem).detail
    except msgspec.DecodeError:
        said = ""
    # Servers of the same kind answer so where they have no such route.
    if not said or (answer.status == HTTPStatus.NOT_FOUND and said == "Not Found"):
        return status_error(answer.status, "", "this is no debug API of Koord-Queue")
    after = answer.headers.get("retry-after", "")
    wait = float(after) if after.isdecimal() else 0.0
    return status_error(answer.status, PROBLEM, said, retry_after_seconds=wait)
