"""The aggregated API, through the API server: with the rights of whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import msgspec

from koord_queue.answers.pending import Pending, read_pending_units
from koord_queue.reach.cluster import JSON, YAML, Cluster, Query
from koord_queue.reach.errors import NotServed

GROUP: Final = "visibility.koord-queue"
BASE: Final = f"/apis/{GROUP}/v1alpha1"


class _Answer(msgspec.Struct):
    status: msgspec.Raw


class AggregatedApi:
    """A `Source`. Errors of the aggregator, which are no `Status`, become `NotServed`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def pending(self, namespace: str | None, queue: str | None) -> list[Pending]:
        """Return the units that wait. See `Source`."""
        query: Query = () if queue is None else (("fieldSelector", f"spec.queue={queue}"),)
        where = "" if namespace is None else f"/namespaces/{namespace}"
        found: list[Pending] = []
        with _named():
            for page in self._cluster.pages(f"{BASE}{where}/pendingunits", query):
                found += read_pending_units(page)
        return found

    def explain(self, namespace: str, name: str, *, changes: bool = False) -> bytes:
        """Return why a unit waits. See `Source`."""
        query: Query = (("changes", "true"),) if changes else ()
        return self._ask("GET", f"{_unit(namespace, name)}/explain", query)

    def forecast(self, namespace: str, name: str) -> bytes:
        """Return when a unit starts. See `Source`."""
        return self._ask("GET", f"{_unit(namespace, name)}/forecast")

    def queue_forecast(self, queue: str) -> bytes:
        """Return nothing: only the debug API has it."""
        self._only_debug(f"the forecast of queue {queue}")

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
        query = tuple((name, "true") for name, is_set in asked.items() if is_set)
        path = f"{BASE}/namespaces/{namespace}/tries"
        return self._ask("POST", path, query, manifest, JSON if is_json else YAML)

    def what_if(self, question: bytes) -> bytes:
        """Return nothing: only the debug API has it."""
        del question
        self._only_debug("what-if")

    def debug(self, path: str, query: Query = ()) -> bytes:
        """Return nothing: only the debug API has it."""
        del query
        self._only_debug(path)

    def _only_debug(self, what: str) -> NoReturn:
        raise NotServed(f"the aggregated API does not have {what}")

    def _ask(
        self, method: str, path: str, query: Query = (), body: bytes = b"", content_type: str = JSON
    ) -> bytes:
        """Return the `status` of the object that is answered."""
        with _named():
            answer = self._cluster.send(method, path, body, content_type, query)
        return bytes(msgspec.json.decode(answer, type=_Answer).status)


@contextmanager
def _named() -> Iterator[None]:
    """Say of which API it is that it is not served."""
    try:
        yield
    except NotServed as error:
        raise NotServed(f"the aggregated API is not served here ({error.message})") from error


def _unit(namespace: str, name: str) -> str:
    return f"{BASE}/namespaces/{namespace}/pendingunits/{name}"
