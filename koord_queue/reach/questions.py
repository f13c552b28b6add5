"""Questions about the queue, each as a value that knows how every source is asked.

A new question is a function here, and nothing else. Answers are the JSON of the debug API, except
those of `pending`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import msgspec

from koord_queue.answers.decoding import Answer, decode
from koord_queue.answers.pending import Pending, pending_of, read_pending_units
from koord_queue.answers.queues import Queue
from koord_queue.answers.units import Unit
from koord_queue.reach.errors import Missing
from koord_queue.reach.media_types import JSON, YAML

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster, Query
    from queue_insight.offline.answers import OfflineAnswers

AnswerT = TypeVar("AnswerT")

GROUP: Final = "visibility.koord-queue"
BASE: Final = f"/apis/{GROUP}/v1alpha1"
"""The aggregated API."""
PAGE: Final = 1000
"""The most that a page of the debug API has."""


class Question(NamedTuple, Generic[AnswerT]):
    """What is asked, and how each source is asked.

    Attributes:
        name: What is asked for, in messages.
        debug_api: Returns the answer of a debug API.
        aggregated_api: Returns that of the aggregated API; None if it has no such answer.
        dump: Returns that of a dump; None if it has no such answer.
    """

    name: str
    debug_api: Callable[[Cluster], AnswerT]
    aggregated_api: Callable[[Cluster], AnswerT] | None = None
    dump: Callable[[OfflineAnswers], AnswerT] | None = None


def pending(namespace: str | None, queue: str | None) -> Question[list[Pending]]:
    """Ask for the pending units: of a namespace, of a queue, or all that may be read."""

    def aggregated_api(api: Cluster) -> list[Pending]:
        query: Query = () if queue is None else (("fieldSelector", f"spec.queue={queue}"),)
        where = "" if namespace is None else f"/namespaces/{namespace}"
        pages = api.pages(f"{BASE}{where}/pendingunits", query)
        return [each for page in pages for each in read_pending_units(page)]

    def debug_api(api: Cluster) -> list[Pending]:
        queues = debug_pages(api.get, "/debug/queues")
        names = [queue] if queue else [decode(bytes(raw), Queue).name for raw in queues]
        units = (
            decode(bytes(raw), Unit)
            for name in names
            for raw in debug_pages(api.get, f"/debug/queues/{name}")
        )
        return [pending_of(unit) for unit in units if namespace in {None, unit.namespace}]

    def dump(answers: OfflineAnswers) -> list[Pending]:
        return [
            pending_of(each)
            for each in decode(answers.units(), list[Unit])
            if each.state in {"waiting", "held"}
            and namespace in {None, each.namespace}
            and queue in {None, each.queue}
        ]

    return Question("the pending units", debug_api, aggregated_api, dump)


def explain(namespace: str, name: str, *, changes: bool = False) -> Question[bytes]:
    """Ask why a unit is pending; `changes`: also what would start it."""
    query = _flags(changes=changes)
    return Question(
        "the explanation of a unit",
        lambda api: api.get(f"/debug/queueunits/{namespace}/{name}/explain", query),
        lambda api: _status(api.get(f"{_pending_unit(namespace, name)}/explain", query)),
        lambda dump: dump.explain(namespace, name, changes=changes),
    )


def forecast(namespace: str, name: str) -> Question[bytes]:
    """Ask when a unit starts."""
    return Question(
        "the forecast of a unit",
        lambda api: api.get(f"/debug/queueunits/{namespace}/{name}/forecast"),
        lambda api: _status(api.get(f"{_pending_unit(namespace, name)}/forecast")),
        lambda dump: dump.forecast(namespace, name),
    )


def queue_forecast(queue: str) -> Question[bytes]:
    """Ask when the units of a queue start."""

    def dump(answers: OfflineAnswers) -> bytes:
        if not any(each.name == queue for each in decode(answers.queues(), list[Queue])):
            raise Missing(f"the dump has no queue {queue}")
        return answers.queue_forecast(queue)

    path = f"/debug/queues/{queue}/forecast"
    return Question(f"the forecast of queue {queue}", lambda api: api.get(path), dump=dump)


def budget_forecast(quota: str) -> Question[bytes]:
    """Ask when the budgets of a quota are spent."""
    query: Query = (("quota", quota), ("limit", str(PAGE)))
    return Question(
        f"the forecast of the budgets of quota {quota}",
        lambda api: api.get("/debug/budgets/forecast", query),
        dump=lambda dump: dump.budget_forecast(quota),
    )


def try_(
    manifest: bytes,
    namespace: str,
    *,
    is_json: bool,
    changes: bool = False,
    defaulted: bool = False,
) -> Question[bytes]:
    """Ask what becomes of a manifest; `defaulted`: it is the answer of a dry run."""
    kind, query = JSON if is_json else YAML, _flags(changes=changes, defaulted=defaulted)
    return Question(
        "what becomes of a manifest",
        lambda api: api.send(
            "POST", "/debug/try", manifest, kind, (("namespace", namespace), *query)
        ),
        lambda api: _status(
            api.send("POST", f"{BASE}/namespaces/{namespace}/tries", manifest, kind, query)
        ),
        lambda dump: dump.submit(manifest, namespace, is_json=is_json, changes=changes),
    )


def what_if(edits: bytes) -> Question[bytes]:
    """Ask what edits would change, by a question as JSON."""
    return Question(
        "what-if",
        lambda api: api.send("POST", "/debug/what-if", edits),
        dump=lambda dump: dump.what_if(edits),
    )


def route(path: str, query: Query = ()) -> Question[bytes]:
    """Ask for the answer of a route that only the debug API has."""
    return Question(path, lambda api: api.get(path, query))


# --- answers of the aggregated API --------------------------------------------------------------


class _Answer(msgspec.Struct):
    status: msgspec.Raw


def _status(answer: bytes) -> bytes:
    """Return the `status` of the object that is answered."""
    return bytes(msgspec.json.decode(answer, type=_Answer).status)


def _pending_unit(namespace: str, name: str) -> str:
    return f"{BASE}/namespaces/{namespace}/pendingunits/{name}"


def _flags(**flags: bool) -> Query:
    return tuple((name, "true") for name, is_set in flags.items() if is_set)


# --- pages of the debug API ---------------------------------------------------------------------


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
        query: The query of each request.
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
