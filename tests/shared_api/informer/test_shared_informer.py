"""Tests of shared_api.informer.shared_informer: which changes handlers get, and when."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.client.resource_types import NAMESPACES
from shared_api.fake_api_server.server import FakeApiServer
from shared_api.informer.reflector import PAGE_LIMIT
from shared_api.informer.shared_informer import (
    RESYNC_CHUNK,
    RESYNC_SECONDS,
    InformerSettings,
    SharedInformer,
)
from shared_api.objects.namespace import Namespace
from shared_api.process.clock import SystemClock
from shared_api.testing.virtual_clock import VirtualClock
from tests.client_kit import client_to
from tests.shared_api.informer.fake_list_watch import Listener
from tests.shared_api.informer.informer_scene import NEVER_BLOCK, THINGS, Scene
from tests.waiting import until


def test_handlers_get_every_change_with_the_previous_state(scene: Scene) -> None:
    scene.server.put("a")
    assert scene.run() == ["->a@1"]
    scene.server.put("a")
    scene.server.put("b")
    scene.server.delete("a")
    assert scene.run() == ["a@1>a@2", "->b@3", "a@2>-"]


def test_synced_means_that_every_handler_has_got_the_whole_first_list(scene: Scene) -> None:
    for number in range(PAGE_LIMIT + 1):
        scene.server.put(f"n{number}")
    assert scene.informer.check_synced() == (False, "things not listed yet")
    scene.informer.step()
    assert (len(scene.listener.heard), scene.informer.has_synced()) == (PAGE_LIMIT, False)
    scene.informer.step()
    assert (len(scene.listener.heard), scene.informer.has_synced()) == (PAGE_LIMIT + 1, True)
    assert scene.informer.check_synced() == (True, "501 things")
    assert scene.informer.last_resource_version == "501"


def test_an_empty_list_is_a_complete_list(scene: Scene) -> None:
    scene.run()
    assert scene.informer.has_synced()


def test_a_handler_that_joins_late_gets_the_existing_objects_first(scene: Scene) -> None:
    scene.server.put("a")
    scene.run()
    late = Listener()
    scene.informer.add_handler(late)
    assert not scene.informer.has_synced()
    scene.server.put("b")
    scene.run()
    assert late.heard == ["->a@1", "->b@2"]
    assert scene.informer.has_synced()


def test_after_a_gap_handlers_get_only_the_difference(scene: Scene) -> None:
    for name in ("same", "changed", "gone"):
        scene.server.put(name)
    scene.run()
    scene.server.watches[-1].silent = True
    scene.server.delete("gone")
    scene.server.put("changed")
    scene.server.put("new")
    assert scene.relist() == ["changed@2>changed@5", "->new@6", "gone@3>-"]


def test_a_recreated_object_is_deleted_first_and_then_added(scene: Scene) -> None:
    scene.server.put("a")
    scene.run()
    scene.server.watches[-1].silent = True
    scene.server.delete("a")
    scene.server.put("a")
    assert scene.relist() == ["a@1>-", "->a@3"]


def test_a_failing_handler_neither_hides_the_event_nor_stops_the_informer() -> None:
    scene = Scene()
    first = scene.informer

    def broken(old: Namespace | None, new: Namespace | None) -> None:
        raise ValueError(f"{old} {new}")

    second = Listener()
    first.add_handler(broken)
    first.add_handler(second)
    scene.server.put("a")
    assert scene.run() == ["->a@1"]
    assert second.heard == ["->a@1"]
    assert scene.count("handler_errors_total") == 1


class TestOwnWrites:
    def test_the_store_has_it_at_once_and_handlers_get_it_once(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        written = scene.server.put("a", team="blue")
        assert scene.informer.note_written(written)
        assert scene.informer.store.by_index("team", "blue") == [written]
        assert scene.listener.heard == []
        assert scene.run() == ["a@1>a@2"]

    def test_a_list_older_than_the_write_does_not_undo_it(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        created = None

        def create() -> None:
            nonlocal created
            scene.server.before_page = lambda: None
            page = list(scene.server.items)
            created = scene.server.put("b")
            scene.informer.note_written(created)
            del scene.server.items["b"]  # the page is older
            scene.server.version -= 1
            assert page == ["a"]

        scene.server.before_page = create
        assert scene.relist() == ["->b@2"], "from the watch that follows"
        assert scene.informer.store.get("b") == created

    def test_an_answer_older_than_the_last_list_does_not_restore_the_object(
        self, scene: Scene
    ) -> None:
        scene.run()
        scene.server.watches[-1].silent = True
        written = scene.server.put("a")
        scene.server.delete("a")
        assert scene.relist() == []
        assert not scene.informer.note_written(written)


class TestResync:
    def test_all_objects_are_reported_again_periodically(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        heard = []
        for _ in range(int(RESYNC_SECONDS * 3 / 60)):
            scene.server.bookmark()
            heard += scene.run(60)
        assert set(heard) == {"a@1>a@1"}
        assert 2 <= len(heard) <= 3

    def test_it_is_done_in_chunks_with_events_in_between(self, scene: Scene) -> None:
        for number in range(RESYNC_CHUNK + 1):
            scene.server.put(f"n{number}")
        scene.run()
        scene.clock.advance(RESYNC_SECONDS * 1.1)
        scene.server.put("new")
        scene.informer.step()
        assert scene.listener.heard[-1] == "->new@502"
        assert len(scene.listener.take()) == RESYNC_CHUNK + 1
        assert len(scene.run()) == 1

    def test_objects_changed_or_deleted_meanwhile_are_reported_as_they_are(
        self, scene: Scene
    ) -> None:
        for number in range(RESYNC_CHUNK + 2):
            scene.server.put(f"n{number:04}")
        scene.run()
        scene.clock.advance(RESYNC_SECONDS * 1.1)
        scene.server.delete("n0500")
        scene.server.put("n0501")
        scene.informer.step()
        scene.listener.take()
        assert scene.run() == ["n0501@504>n0501@504"]

    def test_it_can_be_disabled(self) -> None:
        scene = Scene(InformerSettings(wait_seconds=0, resync_seconds=0))
        scene.server.put("a")
        scene.run()
        scene.clock.advance(RESYNC_SECONDS * 10)
        assert scene.run() == []


def test_on_its_own_thread_it_watches_reports_metrics_and_stops_at_once() -> None:
    scene = Scene()
    informer: SharedInformer[Namespace] = SharedInformer(
        scene.server, THINGS, clock=SystemClock(), rng=random.Random(1), settings=NEVER_BLOCK
    )
    listener = Listener()
    informer.add_handler(listener)
    assert informer.stop(), "before start"
    scene.server.put("a")
    informer.start()
    assert informer.thread is not None
    until(informer.has_synced)
    assert informer.stop(60)
    assert not informer.thread.is_alive()
    assert listener.heard == ["->a@1"]
    assert all(watch.closed for watch in scene.server.watches)


def test_a_scrape_has_the_current_size_of_the_cache(scene: Scene) -> None:
    assert scene.count("synced") == 0
    scene.server.put("a")
    scene.server.break_object("b")
    scene.run()
    scene.clock.advance(7)
    names = ("objects", "synced", "undecodable_objects", "watch_age_seconds")
    assert [scene.count(name) for name in names] == [1, 1, 1, 7]
    scene.server.watches[-1].ended = True
    scene.run()
    labels = {"resource": "things", "reason": "ended"}
    ends = "koord_queue_informer_watch_ends_total"
    assert scene.metrics.registry.get_sample_value(ends, labels) == 1
    assert scene.count("lists_total") == 1


ACTIONS = ["put", "put", "delete", "break", "step", "cut", "expire", "write", "wait"]


@pytest.mark.properties
@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.sampled_from("abc")), max_size=30))
def test_whatever_happens_cache_server_and_handlers_agree_in_the_end(
    actions: list[tuple[str, str]],
) -> None:
    scene = Scene()
    for action, name in actions:
        act(scene, action, name)
        scene.informer.store.validate()
    for name in sorted(scene.server.items):
        scene.server.put(name)  # unreadable objects are repaired
    scene.run(100)
    want: dict[str, Any] = dict(scene.server.items)
    assert {item.metadata.key: item for item in scene.informer.store.list()} == want
    assert scene.listener.state == want


def act(scene: Scene, action: str, name: str) -> None:
    """Do one action on the server, the connection, or the informer."""
    server = scene.server
    watch = server.watches[-1] if server.watches else None
    match action:
        case "put":
            server.put(name)
        case "write":
            scene.informer.note_written(server.put(name))
        case "break":
            server.break_object(name)
        case "delete" if name in server.items:
            server.delete(name)
        case "cut" if watch is not None:
            watch.broken = True
        case "expire" if watch is not None:
            watch.silent = True
            server.send_error(410, "Expired")
        case "wait":
            scene.run(0.5)
        case _:
            scene.informer.step()


def test_with_the_client_it_follows_the_fake_api_server_through_its_faults() -> None:
    clock, rng = VirtualClock(), random.Random(7)
    server = FakeApiServer(clock=clock, rng=rng)
    client = client_to(server, clock)
    informer = SharedInformer(client, NAMESPACES, clock=clock, rng=rng, settings=NEVER_BLOCK)
    listener = Listener()
    informer.add_handler(listener)

    def run(seconds: float) -> None:
        until = clock.monotonic() + seconds
        while clock.monotonic() < until or server.watches.unread_lines:
            clock.advance(min(max(informer.step(), 0.01), 0.5))

    run(1)
    assert informer.has_synced()
    troubles: list[Callable[[], object]] = [server.watches.drop, server.watches.end]
    troubles += [server.watches.expire, server.watches.stall, server.compact, server.go_down]
    for number, trouble in enumerate(troubles):
        trouble()
        body = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": f"n{number}"}}
        server.direct.create(body)
        server.direct.delete("namespaces", f"n{number - 1}" if number else "kube-public")
        run(20)
        server.come_up()
        run(100)
        want = {body["metadata"]["name"] for body in server.direct.list("namespaces")}
        assert set(listener.state) == want, trouble
        assert {each.metadata.name for each in informer.store.list()} == want, trouble


def test_after_events_an_informer_gathers_until_the_next_multiple() -> None:
    scene = Scene(InformerSettings(wait_seconds=1.0, gather_seconds=0.05, resync_seconds=0))
    assert [scene.informer.step() for _ in range(3)] == [0.0, 0.0, 0.0]
    scene.clock.advance(0.52)
    scene.server.put("a")
    assert [scene.informer.step() for _ in range(2)] == pytest.approx([0.03, 0.0])
