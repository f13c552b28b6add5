"""What the client requests, what it repeats, and how it interprets the answers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from shared_api.client.errors import (
    MAX_RETRY_AFTER_SECONDS,
    ApiFailure,
    Conflict,
    ConnectionLost,
    Gone,
    NotFound,
    ServerError,
    Timeout,
    TooManyRequests,
)
from shared_api.client.flow_control import MAX_TRIES, FlowControl, Lane
from shared_api.client.resource_client import (
    WRITE_SECONDS,
    PatchType,
    ResourceClient,
    ResourceType,
    is_guarded,
)
from shared_api.client.resource_types import NODES, PODS, QUEUE_UNITS, SERVICE_ACCOUNTS
from shared_api.client.response_decoding import AnswerReader, WatchEvent
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.client.scripted_transport import (
    Answer,
    ListedStream,
    ScriptedTransport,
    answer,
    lost,
    query_of,
    refusal,
    taking,
)

UNIT = {"metadata": {"name": "u", "namespace": "team", "resourceVersion": "8"}}
GUARDED = {"metadata": {"resourceVersion": "7"}, "status": {"phase": "Dequeued"}}
READER = AnswerReader(QueueUnit)
UNGUARDED = {"metadata": {"uid": "1"}, "status": {"phase": "Dequeued"}}


class Requests:
    """A `RequestObserver` that records."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str, float]] = []

    def on_request(self, *, verb: str, method: str, host: str, code: str, seconds: float) -> None:
        self.seen.append((verb, method, host, code, seconds))


class Setup:
    """A client over a scripted transport."""

    def __init__(self, *script: Answer, qps: float = 0, burst: int = 1) -> None:
        self.clock = VirtualClock()
        self.transport = ScriptedTransport(*script)
        self.observer = Requests()
        self.flow = FlowControl(qps, burst, self.clock)
        self.client = ResourceClient(
            self.transport,
            flow=self.flow,
            clock=self.clock,
            rng=random.Random(1),
            user_agent="koord-queue/1 (test)",
            host="h:1",
            observer=self.observer,
        )

    def patch(self, body: Any = GUARDED) -> str:
        unit = self.client.patch(QUEUE_UNITS, "team", "u", body, subresource="status")
        return unit.metadata.resource_version


# ------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("resource_type", "arguments", "want"),
    [
        (PODS, (), "/api/v1/pods"),
        (PODS, ("a", "b"), "/api/v1/namespaces/a/pods/b"),
        (NODES, ("", "n"), "/api/v1/nodes/n"),
        (NODES, ("ignored", "n"), "/api/v1/nodes/n"),
        (
            QUEUE_UNITS,
            ("team", "u", "status"),
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team/queueunits/u/status",
        ),
        (PODS, ("a", "../x?y"), "/api/v1/namespaces/a/pods/..%2Fx%3Fy"),
    ],
)
def test_paths(resource_type: ResourceType[Any], arguments: Sequence[str], want: str) -> None:
    assert resource_type.path(*arguments) == want


# ------------------------------------------------------------------------------ what is asked


def test_a_list_has_the_given_parameters_and_no_others() -> None:
    setup = Setup(answer(200, {"metadata": {"resourceVersion": "5"}, "items": [UNIT]}))
    page = setup.client.list_page(QUEUE_UNITS, namespace="team", label_selector="a=b", limit=0)
    (unit,) = page.items
    assert unit == READER.read_object(json.dumps(UNIT).encode())
    assert (page.resource_version, page.continue_token) == ("5", "")
    setup.client.list_page(QUEUE_UNITS, field_selector="spec.queue=q", continue_token="c")
    first, second = setup.transport.seen
    assert first.path.endswith("/namespaces/team/queueunits")
    assert query_of(first) == {"labelSelector": "a=b"}
    assert second.path.endswith("/v1alpha1/queueunits")
    assert query_of(second) == {
        "fieldSelector": "spec.queue=q",
        "limit": "500",
        "continue": "c",
    }
    assert dict(first.headers) == {
        "Accept": "application/json",
        "User-Agent": "koord-queue/1 (test)",
    }


@pytest.mark.parametrize(
    ("call", "method", "path_end", "media_type", "body"),
    [
        pytest.param(
            lambda c: c.create(QUEUE_UNITS, "team", {"metadata": {"name": "u"}}),
            "POST",
            "/namespaces/team/queueunits",
            "application/json",
            {"metadata": {"name": "u"}},
            id="create",
        ),
        pytest.param(
            lambda c: c.patch(QUEUE_UNITS, "team", "u", GUARDED, subresource="status"),
            "PATCH",
            "/namespaces/team/queueunits/u/status",
            "application/merge-patch+json",
            GUARDED,
            id="merge patch",
        ),
        pytest.param(
            lambda c: c.patch(
                QUEUE_UNITS,
                "team",
                "u",
                [{"op": "remove", "path": "/a"}],
                patch_type=PatchType.JSON,
            ),
            "PATCH",
            "/namespaces/team/queueunits/u",
            "application/json-patch+json",
            [{"op": "remove", "path": "/a"}],
            id="JSON patch",
        ),
        pytest.param(
            lambda c: c.delete(QUEUE_UNITS, "team", "u", uid=Uid("1"), propagation="Background"),
            "DELETE",
            "/namespaces/team/queueunits/u",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "1"},
                "propagationPolicy": "Background",
            },
            id="delete",
        ),
        pytest.param(
            lambda c: c.delete(QUEUE_UNITS, "team", "u", uid=Uid("1"), version="7"),
            "DELETE",
            "/namespaces/team/queueunits/u",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "preconditions": {"uid": "1", "resourceVersion": "7"},
            },
            id="delete of one version",
        ),
        pytest.param(
            lambda c: c.delete_at_once(
                PODS, ObjectMeta(name="p", namespace="team", uid=Uid("1"), resource_version="7")
            ),
            "DELETE",
            "/namespaces/team/pods/p",
            "application/json",
            {
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "1", "resourceVersion": "7"},
            },
            id="delete at once",
        ),
    ],
)
def test_a_write_has_its_content_type_and_a_server_side_timeout(
    call: Callable[[ResourceClient], object],
    method: str,
    path_end: str,
    media_type: str,
    body: Any,
) -> None:
    setup = Setup(answer(200, UNIT))
    call(setup.client)
    (seen,) = setup.transport.seen
    assert seen.method == method
    assert seen.path.endswith(path_end)
    assert dict(seen.headers)["Content-Type"] == media_type
    assert json.loads(seen.body) == body
    assert query_of(seen) == {"timeout": "4000ms"}
    assert setup.transport.limits == [WRITE_SECONDS]


def test_a_watch_requests_bookmarks_and_returns_events() -> None:
    setup = Setup(answer(200))
    line = json.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}})
    setup.transport.streams.append(ListedStream(200, [line.encode()]))
    stream = setup.client.watch(
        QUEUE_UNITS, namespace="team", resource_version="5", timeout_seconds=300
    )
    assert stream.next_event(1.0) == WatchEvent("BOOKMARK", resource_version="9")
    assert query_of(setup.transport.seen[0]) == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "300",
    }


def test_a_watch_that_is_refused_raises_and_is_closed() -> None:
    setup = Setup(answer(200))
    refused = ListedStream(410, [b'{"reason":', b'"Expired","message":"too old"}'])
    setup.transport.streams.append(refused)
    with pytest.raises(Gone, match="too old"):
        setup.client.watch(QUEUE_UNITS, resource_version="5")
    assert refused.closed
    assert setup.observer.seen == [("watch", "GET", "h:1", "410", 0.0)]


# --------------------------------------------------------------------------------- repetition


@pytest.mark.parametrize(
    ("failures", "want_sent"),
    [
        pytest.param([refusal(429)], 2, id="429"),
        pytest.param([refusal(503), refusal(500), lost(sent=True)], 4, id="all transient failures"),
        pytest.param([refusal(500)] * (MAX_TRIES - 1), MAX_TRIES, id="up to the last try"),
    ],
)
def test_a_read_is_repeated(failures: list[Answer], want_sent: int) -> None:
    setup = Setup(*failures, answer(200, UNIT))
    assert setup.client.get(QUEUE_UNITS, "team", "u").metadata.name == "u"
    assert len(setup.transport.seen) == want_sent


@pytest.mark.parametrize(
    ("given", "want", "want_sent"),
    [
        (refusal(404, "NotFound"), NotFound, 1),
        (refusal(500), ServerError, MAX_TRIES),
        (lost(sent=False), ConnectionLost, MAX_TRIES),
    ],
)
def test_a_read_that_continues_to_fail_raises(
    given: Answer, want: type[ApiFailure], want_sent: int
) -> None:
    setup = Setup(given)
    with pytest.raises(want):
        setup.client.get(QUEUE_UNITS, "team", "u")
    assert len(setup.transport.seen) == want_sent


def test_retry_after_is_respected() -> None:
    setup = Setup(refusal(429, retry_after="2"), answer(200, UNIT))
    started = setup.clock.monotonic()
    setup.patch()
    assert 2.0 <= setup.clock.monotonic() - started < 2.2


@pytest.mark.parametrize(
    ("header", "want"), [("60", 60.0), ("30", 30.0), ("86400", MAX_RETRY_AFTER_SECONDS)]
)
def test_a_busy_server_gets_no_request_of_the_lane(header: str, want: float) -> None:
    setup = Setup(refusal(429, retry_after=header), answer(200, UNIT))
    for call in (
        setup.patch,
        lambda: setup.client.create(QUEUE_UNITS, "team", {"metadata": {"name": "other"}}),
        lambda: setup.client.get(QUEUE_UNITS, "team", "other"),
        lambda: setup.client.list_page(QUEUE_UNITS),
        lambda: setup.client.watch(QUEUE_UNITS),
    ):
        with pytest.raises((TooManyRequests, Timeout)) as caught:
            call()
        assert caught.value.retry_after_seconds == want
        assert not getattr(caught.value, "sent", False)
    assert len(setup.transport.seen) == 1
    setup.clock.advance(want)
    assert setup.patch() == "8"
    assert len(setup.transport.seen) == 2


def test_a_request_waits_for_the_end_of_a_short_hold() -> None:
    setup = Setup(refusal(429, retry_after="2"), answer(200, UNIT))
    setup.flow.hold(Lane.NORMAL, 1.0)
    started = setup.clock.monotonic()
    setup.patch()
    assert 3.0 <= setup.clock.monotonic() - started < 3.2


@pytest.mark.parametrize(
    "given", [refusal(429), refusal(503, retry_after="60"), refusal(500, retry_after="60")]
)
def test_only_a_429_with_a_duration_holds_the_lane(given: Answer) -> None:
    setup = Setup(given)
    with pytest.raises((TooManyRequests, ServerError)):
        setup.patch()
    assert setup.flow.seconds_until(Lane.LOW) == 0.0


def test_a_refused_list_or_watch_holds_no_other_request() -> None:
    setup = Setup(refusal(429, retry_after="60"), answer(200, UNIT))
    setup.transport.streams.append(ListedStream(429, [b"{}"], {"retry-after": "60"}))
    for call in (setup.client.list_page, setup.client.watch):
        with pytest.raises(TooManyRequests) as caught:
            call(QUEUE_UNITS)
        assert caught.value.retry_after_seconds == 60.0
    assert setup.patch() == "8"


@pytest.mark.parametrize(
    ("given", "body", "want_sent"),
    [
        pytest.param(lost(sent=True), GUARDED, 2, id="guarded, unknown outcome"),
        pytest.param(refusal(504), GUARDED, 2, id="guarded, server gave up"),
        pytest.param(lost(sent=False), UNGUARDED, 2, id="not sent"),
        pytest.param(refusal(429), UNGUARDED, 2, id="429 is before all work"),
        pytest.param(refusal(503, retry_after="1"), UNGUARDED, 2, id="503 with Retry-After"),
    ],
)
def test_a_write_is_repeated_if_that_is_harmless(given: Answer, body: Any, want_sent: int) -> None:
    setup = Setup(given, answer(200, UNIT))
    assert setup.patch(body) == "8"
    assert len(setup.transport.seen) == want_sent


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda setup: setup.patch(UNGUARDED), id="patch with a uid only"),
        pytest.param(lambda s: s.client.create(QUEUE_UNITS, "team", GUARDED), id="create"),
        pytest.param(lambda s: s.client.delete(QUEUE_UNITS, "team", "u"), id="delete by name"),
    ],
)
@pytest.mark.parametrize("given", [lost(sent=True), refusal(500), refusal(504)])
def test_an_unknown_outcome_of_an_unguarded_write_is_reported_at_once(
    call: Callable[[Setup], object], given: Answer
) -> None:
    setup = Setup(given, answer(200, UNIT))
    with pytest.raises((ConnectionLost, ServerError)) as caught:
        call(setup)
    if isinstance(caught.value, ConnectionLost):
        assert caught.value.sent
    assert len(setup.transport.seen) == 1


@pytest.mark.parametrize(
    ("script", "want", "want_after_retry"),
    [
        pytest.param([refusal(409, "Conflict")], Conflict, False, id="first try"),
        pytest.param([refusal(429), refusal(409, "Conflict")], Conflict, False, id="429"),
        pytest.param(
            [lost(sent=True), refusal(409, "Conflict")],
            Conflict,
            True,
            id="perhaps caused by the first try",
        ),
        pytest.param([refusal(504), refusal(404)], NotFound, True, id="after a 504"),
        pytest.param(
            [lost(sent=True), refusal(429)], TooManyRequests, True, id="in doubt to the end"
        ),
    ],
)
def test_an_answer_after_an_unknown_try_is_marked(
    script: list[Answer], want: type[ApiFailure], *, want_after_retry: bool
) -> None:
    setup = Setup(*script)
    with pytest.raises(want) as caught:
        setup.patch()
    assert caught.value.after_retry is want_after_retry  # type: ignore[attr-defined] # both kinds have it


def test_only_writes_can_be_in_doubt() -> None:
    setup = Setup(lost(sent=True), refusal(404, "NotFound"))
    with pytest.raises(NotFound) as caught:
        setup.client.get(QUEUE_UNITS, "team", "u")
    assert not caught.value.after_retry


def test_once_in_doubt_a_lost_connection_stays_in_doubt() -> None:
    setup = Setup(lost(sent=True), lost(sent=False))
    with pytest.raises(ConnectionLost) as caught:
        setup.patch()
    assert caught.value.sent
    assert caught.value.after_retry


def test_a_repeated_delete_that_finds_nothing_has_succeeded() -> None:
    setup = Setup(lost(sent=True), refusal(404, "NotFound"))
    setup.client.delete(QUEUE_UNITS, "team", "u", uid=Uid("1"))
    assert len(setup.transport.seen) == 2
    with pytest.raises(NotFound):
        setup.client.delete(QUEUE_UNITS, "team", "u", uid=Uid("1"))


# -------------------------------------------------------------------------------------- limits


def test_all_tries_of_a_write_share_four_seconds() -> None:
    setup = Setup()
    slow = taking(setup.clock, 1.5, ConnectionLost("", sent=True))
    setup.transport.script.append(slow)
    started = setup.clock.monotonic()
    with pytest.raises(ConnectionLost):
        setup.patch()
    assert setup.clock.monotonic() - started < WRITE_SECONDS + 1.5
    limits = setup.transport.limits
    assert limits == sorted(limits, reverse=True)
    for request, limit in zip(setup.transport.seen, limits, strict=True):
        got = int(query_of(request)["timeout"].removesuffix("ms")) / 1000
        assert 0 < got <= limit


def test_a_write_is_not_sent_after_the_process_was_suspended_past_its_deadline() -> None:
    setup = Setup(answer(200, UNIT), qps=1, burst=1)
    setup.patch()

    def oversleep(seconds: float) -> None:
        setup.clock.advance(seconds + 10)

    setup.clock.sleep = oversleep  # type: ignore[method-assign] # a clock that oversleeps
    with pytest.raises(Timeout) as caught:
        setup.patch()
    assert not caught.value.sent
    assert len(setup.transport.seen) == 1


def test_a_write_without_a_token_in_time_counts_as_not_sent() -> None:
    setup = Setup(answer(200, UNIT), qps=0.01, burst=1)
    setup.patch()
    with pytest.raises(Timeout) as caught:
        setup.patch()
    assert not caught.value.sent
    assert len(setup.transport.seen) == 1


def test_each_lane_is_charged_for_its_own_requests() -> None:
    setup = Setup(answer(200, UNIT), qps=10, burst=10)
    for _ in range(2):
        setup.client.patch(QUEUE_UNITS, "team", "u", GUARDED, lane=Lane.LOW)
    assert setup.flow.seconds_until(Lane.LOW) > 0
    assert setup.flow.seconds_until(Lane.NORMAL) == 0


def test_every_try_is_observed() -> None:
    setup = Setup()
    setup.transport.script.extend([lost(sent=False), taking(setup.clock, 0.25, answer(200, UNIT))])
    setup.patch()
    assert setup.observer.seen == [
        ("patch", "PATCH", "h:1", "<error>", 0.0),
        ("patch", "PATCH", "h:1", "200", 0.25),
    ]


@pytest.mark.parametrize(
    ("verb", "body", "want"),
    [
        ("patch", GUARDED, True),
        ("patch", UNGUARDED, False),
        ("patch", {"spec": {}}, False),
        ("create", GUARDED, False),
        ("delete", {"preconditions": {"uid": "1"}}, True),
        ("delete", {}, False),
        ("patch", [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}], True),
        ("patch", [{"op": "test", "path": "/metadata/uid", "value": "1"}], False),
    ],
)
def test_what_counts_as_guarded(verb: str, body: Any, *, want: bool) -> None:
    assert is_guarded(verb, body) is want


# --- metadata alone -----------------------------------------------------------------------------


def test_kinds_read_as_metadata_are_requested_as_metadata() -> None:
    account = {"metadata": {"name": "bot", "namespace": "team"}}
    listed = {"metadata": {}, "items": [account]}
    setup = Setup(answer(200, account), answer(200, listed))
    setup.transport.streams.append(ListedStream(200, []))
    setup.client.get(SERVICE_ACCOUNTS, "team", "bot")
    setup.client.list_page(SERVICE_ACCOUNTS)
    setup.client.watch(SERVICE_ACCOUNTS).close()
    accepted = [dict(each.headers)["Accept"].split(",") for each in setup.transport.seen]
    forms = [[clause.partition(";as=")[2].partition(";")[0] for clause in one] for one in accepted]
    assert forms == [
        ["PartialObjectMetadata", ""],
        ["PartialObjectMetadataList", ""],
        ["PartialObjectMetadata", ""],
    ]


def test_other_kinds_are_requested_as_objects() -> None:
    setup = Setup(answer(200, {"metadata": {"name": "n"}}))
    setup.client.get(NODES, "", "n")
    assert dict(setup.transport.seen[0].headers)["Accept"] == "application/json"
