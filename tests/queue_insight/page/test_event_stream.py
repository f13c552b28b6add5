"""Streams of events: what changed, for whom, and when a stream ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from queue_insight.page import caller_bound, event_stream
from queue_insight.page.caller_bound import EVENTS
from queue_insight.page.event_stream import AUTHORIZED_SECONDS
from queue_insight.page.known_state import KnownStates
from queue_insight.page.live import MAX_KEPT, MAX_UNITS, Changes
from shared_api.process.clock import SystemClock
from tests.queue_insight.page.page_kit import (
    ROOT,
    TENANT,
    Browser,
    LoginWorld,
    PageWorld,
    browser,
    served_page,
)
from tests.queue_insight.page.test_hidden_sums import add
from tests.queue_scheduler.shell_kit import ShellKit
from tests.waiting import until

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LOOK_SECONDS", 0.02)


class Heard:
    """A stream of events: its messages, one after the other."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.iter_lines()
        self.id = ""

    def next(self) -> Json:
        """Return the next message with data."""
        for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "id":
                self.id = value
            if field == "data":
                found: Json = json.loads(value)
                return found
        raise EOFError

    def begin(self) -> None:
        """Wait for the greeting."""
        for line in self._lines:
            if line.startswith("id: "):
                self.id = line.removeprefix("id: ")
                return

    def wait_for_end(self) -> None:
        """Read until the stream ends."""
        for _ in self._lines:
            pass


@contextmanager
def heard(client: httpx.Client, last_id: str = "") -> Iterator[Heard]:
    sent = {"last-event-id": last_id} if last_id else {}
    with client.stream("GET", "/page/events", headers=sent) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        found = Heard(answer)
        found.begin()
        yield found


@contextmanager
def local(kit: ShellKit) -> Iterator[Browser]:
    with served_page(PageWorld(kit.shared, kit.clock)) as url, Browser(url) as client:
        yield client


def test_a_change_is_told(kit: ShellKit) -> None:
    with local(kit) as client, heard(client) as stream:
        kit.add_unit("a")
        got = stream.next()
        assert (got["queues"], got["quotas"], got["units"]) == (["team"], [], ["default/a"])
        assert got["number"] == stream.id
        kit.dequeue()
        got = stream.next()
        assert (got["queues"], got["quotas"], got["units"]) == (["team"], ["team"], ["default/a"])


def test_a_stream_that_begins_again_hears_what_it_missed(kit: ShellKit) -> None:
    with local(kit) as client:
        with heard(client) as stream:
            kit.add_unit("a")
            stream.next()
            kit.add_unit("b")
            last = stream.id
        with heard(client, last) as stream:
            assert stream.next()["units"] == ["default/b"]


@pytest.mark.parametrize("last_id", ["0-0", "x", "-", "1", "9" * 5000, "é", "0-" + "9" * 5000])
def test_a_stream_that_is_too_far_behind_begins_anew(kit: ShellKit, last_id: str) -> None:
    with (
        local(kit) as client,
        client.stream(
            "GET", "/page/events", headers={b"last-event-id": last_id.encode()}
        ) as answer,
    ):
        assert Heard(answer).next() == {"reset": True}


def test_changes_that_are_no_longer_kept(kit: ShellKit) -> None:
    changes = Changes(KnownStates(PageWorld(kit.shared, kit.clock).sources()))
    changes.look()
    before = changes.id_of(changes.last)
    for number in range(MAX_KEPT):
        kit.add_unit(f"u{number}")
        assert changes.look() is not None
    assert changes.place_of(before) == 0
    kit.add_unit("last")
    changes.look()
    assert changes.place_of(before) is None
    assert changes.place_of(changes.id_of(changes.last + 1)) is None
    again = Changes(KnownStates(PageWorld(kit.shared, kit.clock).sources()))
    assert again.place_of(before) is None


def test_nothing_is_looked_at_while_nobody_listens(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Changes] = []
    look = Changes.look

    def count(changes: Changes) -> object:
        looks.append(changes)
        return look(changes)

    monkeypatch.setattr(Changes, "look", count)
    with local(kit) as client:
        client.get("/page/overview")
        assert not looks
        with heard(client) as stream:
            kit.add_unit("a")
            stream.next()
        assert looks
        seen = -1
        while seen != len(looks):  # the server notices that the stream has ended
            seen = len(looks)
            client.get("/page/overview")
            SystemClock().sleep(0.1)


def test_units_of_others_are_not_named(kit: ShellKit) -> None:
    world = LoginWorld(kit)
    with browser(world, TENANT) as client, heard(client) as stream:
        add(kit, "hush", "b", cpu=1)
        assert stream.next()["units"] == []
        kit.add_unit("own")
        assert stream.next()["units"] == ["default/own"]
    with browser(world, ROOT) as client, heard(client) as stream:
        add(kit, "hush-2", "b", cpu=1)
        assert stream.next()["units"] == ["b/hush-2"]


def test_a_message_names_so_many_units(kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "LOOK_SECONDS", 0.5)
    with local(kit) as client, heard(client) as stream:
        for number in range(MAX_UNITS + 50):
            add(kit, f"u{number}", "b", cpu=1)
        found: list[str] = []
        while len(found) < MAX_UNITS:
            found = stream.next()["units"]
            if len(found) < MAX_UNITS:
                for number in range(MAX_UNITS + 50):
                    add(kit, f"more-{len(found)}-{number}", "b", cpu=1)
    assert len(found) == MAX_UNITS


def revoke(world: LoginWorld, _client: Browser) -> None:
    """Revoke the token; its next review is due."""
    world.reviews.users.clear()
    world.clock.advance(AUTHORIZED_SECONDS)


def log_out(_world: LoginWorld, client: Browser) -> None:
    """Log out, as another tab does."""
    assert client.delete("/page/session").status_code == 204


def let_it_end(world: LoginWorld, _client: Browser) -> None:
    """Let the session come to its end."""
    world.clock.advance(8 * 3600)


@pytest.mark.parametrize("act", [revoke, log_out, let_it_end])
def test_what_ends_a_stream(kit: ShellKit, act: Callable[[LoginWorld, Browser], None]) -> None:
    world = LoginWorld(kit)
    with browser(world, ROOT) as client, heard(client) as stream:
        act(world, client)
        stream.wait_for_end()
        assert client.get("/page/events").status_code == 401


def test_a_token_that_is_valid_goes_on(kit: ShellKit) -> None:
    world = LoginWorld(kit)
    with browser(world, ROOT) as client, heard(client) as stream:
        for number in range(3):
            world.clock.advance(AUTHORIZED_SECONDS)
            kit.add_unit(f"u{number}")
            assert stream.next()["units"] == [f"default/u{number}"]


def test_a_withdrawn_right_is_noticed(kit: ShellKit) -> None:
    world = LoginWorld(kit)
    with browser(world, TENANT) as client, heard(client) as stream:
        kit.add_unit("a")
        assert stream.next()["units"] == ["default/a"]
        world.readable["ann"].clear()
        world.clock.advance(61)
        kit.add_unit("b")
        assert stream.next()["units"] == []


def test_each_stream_of_a_session_notices_a_withdrawn_right(kit: ShellKit) -> None:
    world = LoginWorld(kit)
    with (
        browser(world, ROOT) as client,
        heard(client) as first,
        heard(client) as second,
    ):
        kit.add_unit("a")
        assert first.next()["units"] == second.next()["units"] == ["default/a"]
        world.readable["root"].clear()
        world.clock.advance(AUTHORIZED_SECONDS)
        kit.add_unit("b")
        assert first.next()["units"] == second.next()["units"] == []


def test_streams_have_limits(kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a user, whichever of its sessions has them, and of all."""
    monkeypatch.setattr(caller_bound, "OWN_REQUESTS", 2)
    with served_page(LoginWorld(kit)) as url, ExitStack() as stack:
        clients = [stack.enter_context(Browser(url)) for _ in range(3)]
        for client, token in zip(clients, (ROOT, ROOT, TENANT), strict=True):
            assert client.log_in(token).status_code == 200
            stack.enter_context(heard(client))
        assert [client.get(EVENTS).status_code for client in clients[:2]] == [429, 429]
        monkeypatch.setattr(event_stream, "MAX_STREAMS", 3)
        assert clients[2].get(EVENTS).status_code == 503


def test_a_place_is_free_again_when_a_stream_has_ended(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 1)
    with local(kit) as client:
        for _ in range(3):
            until(lambda: can_listen(client))


def can_listen(client: Browser) -> bool:
    with client.stream("GET", "/page/events") as answer:
        return answer.status_code == 200


def test_a_heartbeat(kit: ShellKit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.1)
    with local(kit) as client, client.stream("GET", "/page/events") as answer:
        assert any(line == ": still here" for line in answer.iter_lines())
