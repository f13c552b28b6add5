"""Tests of shared_api.fake_api_server.object_storage."""

from __future__ import annotations

import random

import pytest

from shared_api.fake_api_server.api_errors import RequestFailed
from shared_api.fake_api_server.object_storage import (
    KEPT_SNAPSHOTS,
    ObjectStorage,
    StoredObject,
    Table,
    after_key,
    in_namespace,
)


def body(value: int) -> dict[str, object]:
    return {"metadata": {"name": "x"}, "value": value}


def names(objects: list[StoredObject]) -> list[str]:
    return [f"{stored.name}={stored.body['value']}" for stored in objects]


def scribble(storage: ObjectStorage, table: Table, rng: random.Random) -> None:
    """Make one random change."""
    key = ("", rng.choice("abcde"))
    old = table.objects.get(key)
    if old is None:
        storage.insert(table, key, body(rng.randrange(100)))
    elif rng.random() < 0.3:
        storage.remove(table, old, old.body)
    else:
        storage.replace(table, old, body(rng.randrange(100)))


@pytest.mark.parametrize("seed", range(5))
def test_snapshots_have_the_objects_at_their_version(seed: int) -> None:
    rng = random.Random(seed)
    storage = ObjectStorage()
    table, other = storage.table(("", "things")), storage.table(("", "others"))
    seen = {}
    for _ in range(60):
        scribble(storage, rng.choice([table, other]), rng)
        seen[storage.version] = [table.objects[key] for key in sorted(table.objects)]
    versions = list(seen)
    rng.shuffle(versions)
    for version in versions:
        assert table.snapshot(version) == seen[version], version


def test_repeated_lists_are_sorted_once() -> None:
    storage = ObjectStorage()
    table = storage.table(("", "things"))
    storage.insert(table, ("", "a"), body(1))
    first = table.snapshot(storage.version)
    storage.insert(storage.table(("", "others")), ("", "z"), body(2))
    assert table.snapshot(storage.version) is first


def test_old_changes_are_forgotten() -> None:
    storage = ObjectStorage(history_changes=3)
    table = storage.table(("", "things"))
    stored = storage.insert(table, ("", "a"), body(0))
    for value in range(1, 7):
        stored = storage.replace(table, stored, body(value))
    # The seventh change exceeds twice the limit; the last three are kept.
    assert len(table.changes_after(storage.version - 3)) == 3
    with pytest.raises(RequestFailed) as refused:
        table.changes_after(storage.version - 4)
    assert refused.value.code == 410
    with pytest.raises(RequestFailed):
        table.snapshot(storage.version - 4)


def test_without_history_the_current_version_is_still_known() -> None:
    storage = ObjectStorage()
    table = storage.table(("", "things"))
    storage.insert(table, ("", "a"), body(1))
    before = storage.version
    storage.insert(table, ("", "b"), body(2))
    table.forget_history(storage.version)
    assert names(table.snapshot(storage.version)) == ["a=1", "b=2"]
    assert table.changes_after(storage.version) == []
    with pytest.raises(RequestFailed):
        table.snapshot(before)


def test_a_kind_that_is_served_later_has_no_earlier_history() -> None:
    storage = ObjectStorage()
    storage.insert(storage.table(("", "things")), ("", "a"), body(1))
    table = storage.table(("", "late"))
    assert table.changes_after(storage.version) == []
    with pytest.raises(RequestFailed):
        table.changes_after(storage.version - 1)


def test_the_number_of_snapshots_is_limited() -> None:
    storage = ObjectStorage()
    table = storage.table(("", "things"))
    stored = storage.insert(table, ("", "a"), body(0))
    first = table.snapshot(storage.version)
    version = storage.version
    for value in range(KEPT_SNAPSHOTS + 1):
        stored = storage.replace(table, stored, body(value))
        table.snapshot(storage.version)
    again = table.snapshot(version)
    assert again is not first
    assert again == first


def test_cutting_snapshots() -> None:
    keys = [("a", "x"), ("b", "a"), ("b", "b"), ("c", "x")]
    snapshot = [StoredObject(key, body(0), 1) for key in keys]
    assert [s.key for s in in_namespace(snapshot, "b")] == [("b", "a"), ("b", "b")]
    assert in_namespace(snapshot, "none") == []
    assert in_namespace(snapshot, "") is snapshot
    assert [s.key for s in after_key(snapshot, ("b", "a"))] == [("b", "b"), ("c", "x")]
    assert [s.key for s in after_key(snapshot, ("b", "aa"))] == [("b", "b"), ("c", "x")]
