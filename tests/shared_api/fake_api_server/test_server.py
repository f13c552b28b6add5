"""Tests of shared_api.fake_api_server.server: faults, control by a test, and determinism.

Its answers are tested in tests/contracts/api_server.
"""

from __future__ import annotations

import gc
import random
import weakref

import msgspec
import pytest

from shared_api.client.errors import Conflict, ConnectionLost, NotFound, StreamIdle, Timeout
from shared_api.client.transport import Request
from shared_api.fake_api_server.faults import EVERY_TIME, Match
from shared_api.testing.object_builders import job_body, namespace_body, pod_body
from shared_api.testing.virtual_clock import VirtualClock
from tests.shared_api.testing.fake_server_cases import (
    SECONDS,
    THINGS,
    ask,
    make_server,
    read_all,
    thing,
    watch,
)


def test_the_same_seed_gives_the_same_answers() -> None:
    def story(seed: int) -> list[bytes]:
        server = make_server(seed=seed)
        bodies = [thing("a"), {**thing(""), "metadata": {"generateName": "x-"}}, job_body("j")]
        made = [msgspec.json.encode(server.direct.create(body)) for body in bodies]
        return [*made, ask(server, "GET", "/apis").body]

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_times_are_those_of_the_clock() -> None:
    clock = VirtualClock()
    server = make_server(clock)
    first = server.direct.create(thing("a"))["metadata"]["creationTimestamp"]
    clock.advance(61)
    second = server.direct.create(thing("b"))["metadata"]["creationTimestamp"]
    assert (first, second) == ("2026-11-01T10:00:00Z", "2026-11-01T10:01:01Z")


# ---------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (409, "Conflict"),
        (410, "Expired"),
        (422, "Invalid"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
def test_a_failure_is_answered_the_given_number_of_times_and_nothing_is_done(
    status: int, reason: str
) -> None:
    server = make_server()
    server.faults.fail(status, times=2, match=Match(verb="create"))
    for _ in range(2):
        answer = ask(server, "POST", THINGS, thing("a"))
        assert (answer.status, msgspec.json.decode(answer.body)["reason"]) == (status, reason)
    assert server.faults.armed_count == 0
    assert ask(server, "POST", THINGS, thing("a")).status == 201


def test_retry_after_is_sent() -> None:
    server = make_server()
    server.faults.fail(429, retry_after_seconds=7)
    assert ask(server, "GET", THINGS).headers["retry-after"] == "7"


@pytest.mark.parametrize(
    "match",
    [
        pytest.param(Match(verb="delete"), id="verb"),
        pytest.param(Match(plural="pods"), id="kind"),
        pytest.param(Match(namespace="other"), id="namespace"),
        pytest.param(Match(name="b"), id="name"),
        pytest.param(Match(subresource=""), id="subresource"),
        pytest.param(Match(when=lambda info: not info.is_write), id="condition"),
    ],
)
def test_requests_that_do_not_match_are_processed(match: Match) -> None:
    server = make_server()
    server.direct.create(thing("a"))
    server.faults.fail(500, times=EVERY_TIME, match=match)
    assert ask(server, "PATCH", f"{THINGS}/a/status", {"status": {"x": 1}}).status == 200


def test_an_answer_can_be_lost_after_the_write() -> None:
    server = make_server()
    server.faults.lose_answer(match=Match(verb="create"))
    with pytest.raises(ConnectionLost) as lost:
        ask(server, "POST", THINGS, thing("a"))
    assert lost.value.sent
    assert server.direct.exists("things", "a")


def test_a_request_can_be_lost_before_it_arrives() -> None:
    server = make_server()
    server.faults.lose_request(match=Match(verb="create"))
    with pytest.raises(ConnectionLost) as lost:
        ask(server, "POST", THINGS, thing("a"))
    assert not lost.value.sent
    assert not server.direct.exists("things", "a")


def test_a_delay_advances_the_clock() -> None:
    clock = VirtualClock()
    server = make_server(clock)
    server.faults.delay(3.0)
    before = clock.monotonic()
    assert ask(server, "POST", THINGS, thing("a")).status == 201
    assert clock.monotonic() - before == pytest.approx(3.0)


def test_a_delay_longer_than_the_timeout_is_a_timeout_of_unknown_outcome() -> None:
    clock = VirtualClock()
    server = make_server(clock)
    server.faults.delay(60.0)
    before = clock.monotonic()
    with pytest.raises(Timeout) as late:
        ask(server, "POST", THINGS, thing("a"))
    assert late.value.sent
    assert clock.monotonic() - before == pytest.approx(SECONDS)
    assert server.direct.exists("things", "a")


def test_at_the_server_side_timeout_nothing_is_written() -> None:
    server = make_server()
    server.faults.delay(60.0)
    body = msgspec.json.encode(thing("a"))
    answer = server.send(Request("POST", THINGS, (("timeout", "2s"),), body=body), SECONDS)
    assert answer.status == 504
    assert not server.direct.exists("things", "a")


def test_probabilities_depend_on_the_seed() -> None:
    def story(seed: int) -> list[int]:
        server = make_server(seed=seed)
        server.faults.fail(500, times=EVERY_TIME, probability=0.5)
        return [ask(server, "GET", THINGS).status for _ in range(40)]

    assert story(3) == story(3)
    assert set(story(3)) == {200, 500}


def test_a_server_that_is_down_refuses_requests_and_keeps_its_objects() -> None:
    server = make_server()
    server.direct.create(thing("a"))
    stream = watch(server)
    server.go_down()
    for call in (lambda: ask(server, "GET", THINGS), lambda: watch(server)):
        with pytest.raises(ConnectionLost) as lost:
            call()
        assert not lost.value.sent
    with pytest.raises(ConnectionLost):
        stream.read_line(1.0)
    server.come_up()
    assert ask(server, "GET", f"{THINGS}/a").status == 200


def test_a_closed_server_stays_closed() -> None:
    server = make_server()
    server.close()
    with pytest.raises(ConnectionLost):
        ask(server, "GET", THINGS)


# --------------------------------------------------------------------------------------- watches


def test_a_watch_without_news_is_idle_at_once_and_no_time_passes() -> None:
    clock = VirtualClock()
    server = make_server(clock)
    stream = watch(server, resourceVersion=str(server.resource_version))
    before = clock.monotonic()
    with pytest.raises(StreamIdle):
        stream.read_line(30.0)
    assert clock.monotonic() == before
    server.direct.create(thing("a"))
    assert server.watches.unread_lines == 1
    assert stream.read_line(30.0) is not None
    assert server.watches.unread_lines == 0


def test_bookmarks_are_due_by_the_clock() -> None:
    clock = VirtualClock()
    server = make_server(clock, bookmark_seconds=60.0)
    version = str(server.resource_version)
    stream = watch(server, resourceVersion=version, allowWatchBookmarks="true")
    server.direct.create(namespace_body("elsewhere"))
    clock.advance(61)
    line = stream.read_line(0.0)
    assert line is not None
    bookmark = msgspec.json.decode(line)
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["resourceVersion"] == str(server.resource_version)
    with pytest.raises(StreamIdle):
        stream.read_line(0.0)


def test_a_watch_gets_a_bookmark_two_seconds_before_its_end() -> None:
    clock = VirtualClock()
    server = make_server(clock, bookmark_seconds=60.0)
    query = {"resourceVersion": str(server.resource_version), "allowWatchBookmarks": "true"}
    stream = watch(server, timeoutSeconds="3", **query)
    clock.advance(0.9)
    with pytest.raises(StreamIdle):
        stream.read_line(0.0)
    clock.advance(5.0)
    assert b"BOOKMARK" in (stream.read_line(0.0) or b"")
    assert stream.read_line(0.0) is None


def test_a_watch_ends_at_its_timeout() -> None:
    clock = VirtualClock()
    server = make_server(clock)
    stream = watch(server, resourceVersion=str(server.resource_version), timeoutSeconds="300")
    assert len(server.watches.requests) == 1
    clock.advance(301)
    assert stream.read_line(0.0) is None
    assert server.watches.requests == []
    server.direct.create(thing("a"))
    assert stream.read_line(0.0) is None


def test_compaction_forces_a_new_list() -> None:
    server = make_server()
    server.direct.create_all(thing(name) for name in "abc")
    version = str(server.resource_version)
    page = msgspec.json.decode(server.send(Request("GET", THINGS, (("limit", "1"),)), SECONDS).body)
    server.direct.create(thing("d"))
    server.compact("pods")
    assert read_all(watch(server, resourceVersion=version)) == [("ADDED", "d")]
    server.compact("things")
    (event,) = read_all(watch(server, resourceVersion=version))
    assert event[0] == "ERROR"
    token = (("limit", "1"), ("continue", page["metadata"]["continue"]))
    assert server.send(Request("GET", THINGS, token), SECONDS).status == 410
    assert read_all(watch(server, resourceVersion=str(server.resource_version))) == []


def test_failures_of_a_watch_have_a_status() -> None:
    server = make_server()
    server.faults.fail(503, match=Match(verb="watch"))
    stream = watch(server)
    line = stream.read_line(1.0)
    assert line is not None
    assert (stream.status, msgspec.json.decode(line)["code"]) == (503, 503)
    assert stream.read_line(1.0) is None


def test_a_stream_returns_any_other_answer_as_one_line() -> None:
    stream = make_server().stream(Request("GET", "/version"), SECONDS)
    line = stream.read_line(1.0)
    assert line is not None
    assert msgspec.json.decode(line)["major"] == "1"
    assert stream.read_line(1.0) is None


def test_a_closed_watch_is_not_kept() -> None:
    server = make_server()
    stream = watch(server)
    kept = weakref.ref(stream)
    stream.close()
    del stream
    gc.collect()
    assert kept() is None


# -------------------------------------------------------------------------------- direct access


def test_requests_are_counted_and_direct_writes_are_not() -> None:
    server = make_server()
    server.direct.create(thing("a"))
    ask(server, "PATCH", f"{THINGS}/a/status", {"status": {"x": 1}})
    ask(server, "GET", f"{THINGS}/none")
    assert server.counts == {("patch", "things", "status"): 1, ("get", "things", ""): 1}
    assert [entry.status for entry in server.journal] == [200, 404]


def test_direct_writes_bypass_faults() -> None:
    server = make_server()
    server.faults.fail(500, times=EVERY_TIME)
    server.direct.create(thing("a"))
    server.direct.patch("things", "a", {"spec": 1})
    assert server.direct.get("things", "a")["spec"] == 1
    assert [one["metadata"]["name"] for one in server.direct.list("things")] == ["a"]
    server.direct.delete("things", "a")
    assert not server.direct.exists("things", "a")


def test_refused_direct_writes_raise_the_errors_of_the_client() -> None:
    server = make_server()
    server.direct.create(thing("a"))
    with pytest.raises(NotFound):
        server.direct.get("things", "none")
    with pytest.raises(Conflict):
        server.direct.patch("things", "a", {"metadata": {"resourceVersion": "1"}})


def test_garbage_collection_can_be_left_to_the_test() -> None:
    server = make_server(collects_garbage=False)
    owner = server.direct.create(thing("a"))
    reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "a"}
    reference["uid"] = owner["metadata"]["uid"]
    server.direct.create(pod_body("p", metadata={"ownerReferences": [reference]}))
    server.direct.delete("things", "a")
    assert server.direct.exists("pods", "p")
    server.collect_garbage()
    assert not server.direct.exists("pods", "p")


def test_reviews_have_the_answers_that_the_test_sets() -> None:
    server = make_server()
    server.reviews.users["secret"] = {"username": "ann", "groups": ["team"]}
    server.reviews.allows = lambda spec: spec["user"] == "ann"
    token = ask(
        server,
        "POST",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {"spec": {"token": "secret"}},
    )
    assert msgspec.json.decode(token.body)["status"]["user"]["username"] == "ann"
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    for user, allowed in (("ann", True), ("bob", False)):
        answer = ask(server, "POST", path, {"spec": {"user": user}})
        assert msgspec.json.decode(answer.body)["status"]["allowed"] is allowed
    assert ask(server, "GET", path).status == 405


def test_counter_and_history_agree_after_many_random_writes() -> None:
    rng = random.Random(5)
    server = make_server()
    stream = watch(server, resourceVersion=str(server.resource_version))
    known: dict[str, int] = {}
    for step in range(300):
        name = rng.choice("abcd")
        if not server.direct.exists("things", name):
            server.direct.create(thing(name, spec=0))
        elif rng.random() < 0.3:
            server.direct.delete("things", name)
        else:
            server.direct.patch("things", name, {"spec": step})
    while (line := stream.take_line()) is not None:
        event = msgspec.json.decode(line)
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            del known[name]
        else:
            assert (name in known) == (event["type"] == "MODIFIED")
            known[name] = event["object"]["spec"]
    assert known == {o["metadata"]["name"]: o["spec"] for o in server.direct.list("things")}
