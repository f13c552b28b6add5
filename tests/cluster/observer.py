"""Watches objects over the API and records what happened: Jobs, units, pods, quotas, others.

It reads only the API, with a client of its own, and survives restarts of the API server: a
broken watch continues from the last resourceVersion, or from a new list where that is too old.
`judgement.History` evaluates what was seen.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

from tests.cluster.judgement import Json, Seen
from tests.controlplane.api_client import ApiClient, ApiError

PATHS: Final = {
    "elasticquotas": "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas",
    "jobs": "/apis/batch/v1/jobs",
    "queueunits": "/apis/scheduling.x-k8s.io/v1alpha1/queueunits",
    "pods": "/api/v1/pods",
}
AGAIN_SECONDS: Final = 0.1
"""Between attempts while no API server answers."""
WATCH_SECONDS: Final = 5
"""Of one watch: the next continues where it ended; in between the end of all is checked."""
SILENT_SECONDS: Final = 20.0
"""Without an answer, after which a watch counts as broken."""


class TooOldError(Exception):
    """The server no longer knows what came after that resourceVersion."""


class Observer:
    """A set of watches, each on a thread of its own.

    Args:
        client: of the API server to watch.
        paths: of what is watched, by its name in `seen`.
    """

    def __init__(self, client: ApiClient, paths: Mapping[str, str] = PATHS) -> None:
        self.seen: list[Seen] = []
        """All events so far. Lists take appends from several threads."""
        self.gaps: list[tuple[str, int]] = []
        """Kinds, and the resourceVersion after which events were lost: of an object that changed
        twice until the next list, only the last change is seen."""
        self._until = dict.fromkeys(paths, 0)
        self._unwatched_since = dict.fromkeys(paths, 0)
        self._paths = paths
        self._client = client
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch_kind, args=(plural,), name=f"observe-{plural}")
            for plural in paths
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _watch_kind(self, plural: str) -> None:
        known: dict[str, Json] = {}
        while not self._stopping.is_set():
            try:
                if not self._until[plural]:
                    self._list(plural, known)
                self._watch(plural, known)
            except TooOldError:
                self.gaps.append((plural, self._until[plural]))
                self._unwatched_since[plural] = self._until[plural]
                self._until[plural] = 0
            except (OSError, http.client.HTTPException, ApiError, ValueError):
                # No server, or it closed the connection in the middle of a line.
                self._stopping.wait(AGAIN_SECONDS)

    def _list(self, plural: str, known: dict[str, Json]) -> None:
        """Record how the list differs from what is known."""
        found = self._client.request("GET", self._paths[plural])
        version = int(found["metadata"]["resourceVersion"])
        since = self._unwatched_since[plural]
        items = {item["metadata"]["uid"]: item for item in found["items"]}
        gone = [body for uid, body in known.items() if uid not in items]
        for body in gone:
            self._note(Seen(version, plural, is_gone=True, body=body, unwatched_since=since), known)
        for uid, item in items.items():
            if uid not in known or version_of(known[uid]) != version_of(item):
                news = Seen(
                    version_of(item), plural, is_gone=False, body=item, unwatched_since=since
                )
                self._note(news, known)
        self._until[plural] = version

    def _watch(self, plural: str, known: dict[str, Json]) -> None:
        """Record the events of one watch."""
        path = f"{self._paths[plural]}?watch=true&resourceVersion={self._until[plural]}"
        for event in self._lines(path):
            body = event["object"]
            if event["type"] == "ERROR":
                raise TooOldError
            self._note(Seen(version_of(body), plural, event["type"] == "DELETED", body), known)
            self._until[plural] = version_of(body)
            if self._stopping.is_set():
                return

    def _note(self, seen: Seen, known: dict[str, Json]) -> None:
        self.seen.append(seen._replace(seen_at=time.monotonic()))
        uid = seen.body["metadata"]["uid"]
        if seen.is_gone:
            known.pop(uid, None)
        else:
            known[uid] = seen.body

    def _lines(self, path: str) -> Iterator[Json]:
        client = self._client
        context = ssl.create_default_context(cafile=str(client.ca_file))
        connection = http.client.HTTPSConnection(
            client.host, client.port, timeout=SILENT_SECONDS, context=context
        )
        with closing(connection):
            headers = {"Authorization": f"Bearer {client.token}"}
            connection.request("GET", f"{path}&timeoutSeconds={WATCH_SECONDS}", headers=headers)
            answer = connection.getresponse()
            if answer.status == HTTPStatus.GONE:
                raise TooOldError
            if answer.status != HTTPStatus.OK:
                raise http.client.HTTPException(f"{path}: {answer.status}")
            while line := answer.readline():
                yield json.loads(line)


def version_of(body: Json) -> int:
    """Return an object's resourceVersion."""
    return int(body["metadata"]["resourceVersion"])
