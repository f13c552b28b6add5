"""Unreadable objects: which version counts, and how they are reported."""

from __future__ import annotations

import pytest

from shared_api.client.errors import DecodeFailure
from shared_api.client.resource_client import WatchEvent
from shared_api.objects.namespace import Namespace
from tests.shared_api.informer.informer_scene import Scene


@pytest.fixture
def reports(scene: Scene) -> list[DecodeFailure]:
    reports: list[DecodeFailure] = []
    scene.informer.add_undecodable_handler(reports.append)
    return reports


def test_its_last_readable_version_still_counts(scene: Scene, reports: list[DecodeFailure]) -> None:
    good = scene.server.put("a")
    scene.run()
    failure = scene.server.break_object("a")
    scene.server.put("b")
    assert scene.run() == ["->b@3"]
    assert (reports, scene.informer.store.get("a")) == ([failure], good)
    assert scene.informer.undecodable() == {"a": failure}
    assert not scene.informer.is_readable("a")
    assert scene.relist() == []
    assert (len(reports), scene.count("decode_failures_total")) == (1, 1), "told once"


def test_its_salvaged_rest_counts(scene: Scene, reports: list[DecodeFailure]) -> None:
    scene.server.put("a")
    scene.run()
    failure = scene.server.break_object("a", leaves_rest=True)
    assert scene.run() == ["a@1>a@2"]
    assert (reports, scene.informer.undecodable()) == ([failure], {"a": failure})
    assert scene.relist() == []
    assert len(reports) == 1, "told once"


def test_its_repair_is_an_ordinary_change(scene: Scene, reports: list[DecodeFailure]) -> None:
    scene.server.put("a")
    scene.server.break_object("a")
    scene.run()
    scene.server.put("a")
    assert scene.run() == ["->a@3"]
    assert (len(reports), scene.informer.undecodable()) == (1, {})
    assert scene.informer.is_readable("a")


def test_its_deletion_is_seen_by_watch_and_by_list(
    scene: Scene, reports: list[DecodeFailure]
) -> None:
    for name in ("a", "b"):
        scene.server.put(name)
    scene.run()
    for name in ("a", "b"):
        scene.server.break_object(name)
    scene.run()
    scene.server.delete("a")
    assert scene.run() == ["a@1>-"]
    scene.server.watches[-1].silent = True
    scene.server.delete("b")
    assert scene.relist() == ["b@2>-"]
    assert (len(reports), scene.informer.undecodable()) == (2, {})


def test_an_unreadable_deletion_is_a_deletion(scene: Scene, reports: list[DecodeFailure]) -> None:
    scene.server.put("a")
    scene.run()
    scene.server.delete("a")
    uid = scene.listener.state["a"].metadata.uid
    broken = DecodeFailure("", "a", uid, "2", "bad")
    scene.server.history[-1] = WatchEvent("DELETED", None, "2", undecodable=broken)
    assert scene.run() == ["a@1>-"]
    assert reports == [], "it no longer needs a repair"


def test_with_a_new_uid_the_old_object_is_deleted(
    scene: Scene, reports: list[DecodeFailure]
) -> None:
    scene.server.put("a")
    scene.run()
    scene.server.watches[-1].silent = True
    scene.server.delete("a")
    scene.server.break_object("a")
    assert scene.relist() == ["a@1>-"]
    assert len(reports) == 1


def test_one_without_a_name_affects_no_other_object(
    scene: Scene, reports: list[DecodeFailure]
) -> None:
    scene.server.put("a")
    scene.run()
    scene.server.items["a"] = DecodeFailure(error="no metadata")
    assert scene.relist() == []
    assert (len(reports), scene.informer.undecodable()) == (1, {})


def test_a_failing_report_is_only_counted(scene: Scene) -> None:
    def broken(failure: DecodeFailure) -> None:
        raise ValueError(failure)

    scene.informer.add_undecodable_handler(broken)
    scene.server.break_object("a")
    scene.run()
    assert scene.count("handler_errors_total") == 1


def test_an_object_at_which_an_index_raises_is_one(
    scene: Scene, reports: list[DecodeFailure]
) -> None:
    """The watch goes on, and neither the store nor another object is affected."""
    scene.indexes["team"] = by_team_but_bad
    good = scene.server.put("a")
    scene.server.put("bad")
    scene.server.put("b")
    assert scene.run() == ["->a@1", "->b@3"]
    assert [(each.key, each.error) for each in reports] == [("bad", "ValueError: bad")]
    assert (scene.count("undecodable_objects"), scene.count("decode_failures_total")) == (1, 1)
    assert scene.informer.store.get("a") == good
    assert scene.relist() == []
    assert len(reports) == 1, "told once"
    scene.indexes["team"] = lambda _: ()
    scene.server.put("bad")
    assert scene.run() == ["->bad@4"]
    assert scene.informer.undecodable() == {}


def by_team_but_bad(thing: Namespace) -> tuple[str, ...]:
    if thing.metadata.name == "bad":
        raise ValueError(thing.metadata.name)
    return ()
