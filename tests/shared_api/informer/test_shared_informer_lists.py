"""Lists after the first one: what watches have missed, and a history that was replaced."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.client.errors import ServerError
from shared_api.informer.fresh_read import FRESH_READ_PATIENCE_SECONDS
from shared_api.informer.reflector import BOOKMARK_WATCH_SECONDS, PAGE_LIMIT
from shared_api.informer.shared_informer import RESYNC_CHUNK, RESYNC_SECONDS
from tests.shared_api.informer.informer_scene import Scene


class TestFindings:
    def test_changes_from_the_first_list_and_the_watch_are_no_findings(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        scene.server.put("a")
        scene.server.put("b")
        scene.run()
        assert scene.relist() == []
        assert scene.count("findings_total") == 0

    def test_a_change_in_a_list_that_no_watch_has_reported_is_counted(self, scene: Scene) -> None:
        for name in ("changed", "gone", "same"):
            scene.server.put(name)
        scene.run()
        scene.server.watches[-1].silent = True
        scene.server.put("changed")
        scene.server.delete("gone")
        scene.server.put("new")
        assert len(scene.relist()) == 3
        assert scene.count("findings_total") == 3

    def test_a_resync_has_no_findings(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        scene.clock.advance(RESYNC_SECONDS * 1.1)
        assert scene.run() == ["a@1>a@1"]
        assert scene.count("findings_total") == 0


class TestFreshRead:
    def test_an_up_to_date_cache_is_fresh_at_once(self, scene: Scene) -> None:
        scene.server.put("a")
        scene.run()
        assert scene.informer.start_fresh_read().is_reached()

    def test_a_busy_cache_becomes_fresh_by_its_watch(self, scene: Scene) -> None:
        scene.run()
        scene.server.put("a")
        read = scene.informer.start_fresh_read()
        assert not read.is_reached()
        lists = len(scene.server.lists)
        scene.run()
        assert read.is_reached()
        assert len(scene.server.lists) == lists

    def test_a_quiet_cache_becomes_fresh_by_an_early_bookmark(self, scene: Scene) -> None:
        scene.run()
        scene.server.version += 1  # another object in the cluster changed
        read = scene.informer.start_fresh_read()
        lists = len(scene.server.lists)
        scene.run()
        assert scene.server.watches[-1].timeout_seconds == BOOKMARK_WATCH_SECONDS
        assert not read.is_reached()
        scene.server.bookmark()
        scene.run()
        assert read.is_reached()
        assert len(scene.server.lists) == lists

    def test_a_quiet_cache_is_listed_if_no_bookmark_comes(self, scene: Scene) -> None:
        scene.run()
        scene.server.version += 1  # another object in the cluster changed
        read = scene.informer.start_fresh_read()
        scene.run(FRESH_READ_PATIENCE_SECONDS)
        assert not read.is_reached()
        scene.run()
        assert read.is_reached()

    def test_a_server_that_does_not_answer_is_reported(self, scene: Scene) -> None:
        scene.run()
        scene.server.down = True
        with pytest.raises(Exception, match="connection refused"):
            scene.informer.start_fresh_read()

    def test_a_cache_that_is_ahead_of_the_server_is_not_fresh(self, scene: Scene) -> None:
        """After a restore from a backup that the watch has not detected yet."""
        old = scene.server.put("a")
        scene.server.put("a")
        scene.run()
        scene.server.restore_backup(1)
        scene.server.items = {"a": old}
        read = scene.informer.start_fresh_read()
        assert not read.is_reached()
        assert scene.run() == ["a@2>a@1"]
        assert read.is_reached()


def test_after_a_restore_from_a_backup_the_cache_equals_the_server(scene: Scene) -> None:
    old = scene.server.put("a")
    scene.server.put("a")
    scene.server.put("b")
    scene.run()
    scene.server.restore_backup(1)
    scene.server.items = {"a": old}
    scene.server.send_error(410, "Expired")
    got: list[bool] = []
    scene.informer.add_handler(lambda _old, _new: got.append(scene.informer.is_rewound()))
    assert scene.run(1) == ["a@2>a@1", "b@3>-"]
    scene.server.put("a")
    assert scene.run() == ["a@1>a@2"]
    # Two when the handler joined, two from the list, one from the watch.
    assert got == [False, False, True, True, False]


def test_after_a_restore_an_unreadable_object_of_another_uid_takes_the_place(scene: Scene) -> None:
    for _ in range(3):
        scene.server.put("a")
    scene.run()
    scene.server.restore_backup(0)
    scene.server.items.clear()
    scene.server.break_object("a", uid="another")
    scene.server.send_error(410, "Expired")
    assert scene.run(1) == ["a@3>-"]


def test_after_a_restore_the_next_readable_version_of_an_object_counts(scene: Scene) -> None:
    for _ in range(5):
        scene.server.put("a", uid="one")
    scene.run()
    scene.server.restore_backup(1)
    scene.server.break_object("a", uid="one")
    scene.server.send_error(410, "Expired")
    assert scene.run(1) == [], "the last readable version still counts"
    got: list[bool] = []
    scene.informer.add_handler(lambda _old, _new: got.append(scene.informer.is_rewound()))
    scene.server.put("a", uid="one")
    assert scene.run() == ["a@5>a@3"]
    scene.server.put("a", uid="one")
    assert scene.run() == ["a@3>a@4"]
    # When the handler joined, the version that invalidates all earlier ones, and the next one.
    assert got == [False, True, False]


def rewind(scene: Scene, objects: int) -> None:
    """Fill the cache, and lose the last object and its version in a restore."""
    for number in range(objects):
        scene.server.put(f"n{number:04}")
    scene.run()
    scene.server.restore_backup(objects - 1)
    scene.server.items.popitem()
    scene.server.send_error(410, "Expired")


def test_a_resync_does_not_start_within_a_list_of_another_history(scene: Scene) -> None:
    rewind(scene, PAGE_LIMIT + 2)
    scene.clock.advance(scene.informer.step())
    scene.informer.step()
    assert len(scene.listener.take()) == PAGE_LIMIT
    scene.clock.advance(RESYNC_SECONDS * 1.1)
    scene.informer.step()
    assert scene.listener.take() == ["n0500@501>n0500@501", "n0501@502>-"]
    assert len(scene.run()) == PAGE_LIMIT + 1, "after the list it starts"


def test_a_resync_in_progress_ends_with_a_list_of_another_history(scene: Scene) -> None:
    rewind(scene, 3 * RESYNC_CHUNK)
    scene.clock.advance(RESYNC_SECONDS * 1.1)
    for want in (RESYNC_CHUNK, RESYNC_CHUNK + PAGE_LIMIT):  # the second time including a page
        scene.informer.step()
        assert len(scene.listener.take()) == want
        scene.clock.advance(1)
    scene.server.list_failures.append(ServerError(500))
    assert scene.informer.step() > 0, "nothing is left to report during the pause"
    assert len(scene.run(1)) == 2 * PAGE_LIMIT


def test_only_a_creation_that_the_watch_reports_is_one(scene: Scene) -> None:
    got: list[tuple[str, bool]] = []

    def note(_: object, new: Any) -> None:
        got.append((new.metadata.name, scene.informer.is_creation()))

    scene.server.put("listed")
    scene.informer.add_handler(note)
    scene.run()
    scene.server.put("created")
    scene.server.put("created")
    scene.run()
    scene.server.watches[-1].silent = True
    scene.server.put("missed")
    scene.relist()
    assert got == [("listed", False), ("created", True), ("created", False), ("missed", False)]
