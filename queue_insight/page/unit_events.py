"""The events of a unit, its job and its pods, read with the token of who looks at them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from queue_insight.page.api_answers import ListMeta, Meta, Wire, decode, shorten
from queue_insight.page.unit_objects import KnownPod, UnitObjects
from queue_insight.page.visitor_client import VisitorClient, in_words, is_segment, segment
from shared_api.client.errors import ApiFailure
from shared_api.debug_api.views import View

EVENT_PODS: Final = 8
"""Pods whose events are asked for, by one request each; those without a node first."""
EVENTS_PAGE: Final = 500
"""Events of one object that are read. The API server lists them by name."""
MAX_EVENTS: Final = 100
"""Events that are shown, the newest."""

EVENTS_PATH: Final = "/api/v1/namespaces/{namespace}/events"
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,63}")


class EventView(View):
    """An event; `time` is the last one of `count`, null if the event does not say."""

    time: str | None
    type: str
    reason: str
    message: str
    about: str
    count: int


class EventsView(View):
    """The newest events of a unit, its job and its pods.

    `more`: there are further ones. `pods_left_out`: the pods whose events were not asked
    for. `problem`: what was not read, and why.
    """

    events: list[EventView]
    more: bool = False
    pods_left_out: int = 0
    problem: str = ""


class _Object(Wire):
    kind: str = ""
    name: str = ""


class _Series(Wire):
    count: int = 0
    last_observed_time: str | None = None


class _Event(Wire):
    metadata: Meta = msgspec.field(default_factory=Meta)
    involved_object: _Object = msgspec.field(default_factory=_Object)
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 0
    series: _Series | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None


class _EventList(Wire):
    items: list[_Event] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_event_lists: Final = msgspec.json.Decoder(_EventList)


def read_events(client: VisitorClient, unit: UnitObjects) -> EventsView:
    """Return the newest events of a unit, its job and some of its pods."""
    found: list[EventView] = []
    more, problem = False, ""
    pods = sorted(unit.pods, key=lambda each: (each.node != "", each.name))
    asked = pods[:EVENT_PODS]
    for selector in _event_selectors(unit, asked):
        try:
            listed = _list_events(client, unit.namespace, selector)
        except ApiFailure as failure:
            problem = in_words(failure)
            break  # the next is likely to end alike, and takes as long
        found.extend(map(_show_event, (listed.items or ())[:EVENTS_PAGE]))
        more = more or bool(listed.metadata.more)
    found.sort(key=lambda each: each.time or "", reverse=True)
    return EventsView(
        events=found[:MAX_EVENTS],
        more=more or len(found) > MAX_EVENTS,
        pods_left_out=len(pods) - len(asked),
        problem=problem,
    )


def _event_selectors(unit: UnitObjects, pods: Iterable[KnownPod]) -> list[str]:
    uids = [unit.uid, "" if unit.job is None else unit.job.uid]
    of_uids = [f"involvedObject.uid={each}" for each in uids if _UID.fullmatch(each)]
    names = [each.name for each in pods if is_segment(each.name)]
    of_pods = [f"involvedObject.kind=Pod,involvedObject.name={each}" for each in names]
    return list(dict.fromkeys([*of_uids, *of_pods]))


def _list_events(client: VisitorClient, namespace: str, selector: str) -> _EventList:
    path = EVENTS_PATH.format(namespace=segment(namespace))
    query = {"fieldSelector": selector, "limit": str(EVENTS_PAGE)}
    return decode(_event_lists, client.get_raw(path, query))


def _show_event(event: _Event) -> EventView:
    series = event.series or _Series()
    times = (series.last_observed_time, event.last_timestamp, event.event_time)
    more = (event.first_timestamp, event.metadata.creation_timestamp)
    about = f"{event.involved_object.kind}/{event.involved_object.name}"
    return EventView(
        time=next(filter(None, (*times, *more)), None),
        type=shorten(event.type),
        reason=shorten(event.reason),
        message=shorten(event.message),
        about=shorten(about),
        count=max(1, series.count, event.count),
    )
