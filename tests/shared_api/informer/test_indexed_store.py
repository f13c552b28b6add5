"""Tests of shared_api.informer.indexed_store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared_api.informer.indexed_store import Change, IndexedStore, version_number
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.namespace import Namespace


def thing(name: str, version: int, uid: str = "u1", team: str = "red") -> Namespace:
    """Return a minimal object; it is indexed by its team."""
    return Namespace(
        metadata=ObjectMeta(
            name=name, uid=Uid(uid), resource_version=str(version), labels={"team": team}
        )
    )


def teams_of(item: Namespace) -> list[str]:
    return item.metadata.labels.get("team", "").split()


@pytest.fixture
def store() -> Iterator[IndexedStore[Namespace]]:
    store = IndexedStore[Namespace](indexes={"team": teams_of})
    yield store
    store.validate()


def test_observed_objects_can_be_read_by_key_and_by_index(store: IndexedStore[Namespace]) -> None:
    a, b, c = thing("a", 1), thing("b", 2, team="red blue"), thing("c", 3, team="")
    for each in (a, b, c):
        assert store.put_observed(each) == [(None, each)]
    assert (store.get("a"), store.get("x"), len(store)) == (a, None, 3)
    assert store.list() == [a, b, c]
    assert store.by_index("team", "red") == [a, b]
    assert store.by_index("team", "blue") == [b]
    assert store.by_index("team", "green") == []
    assert store.index_values("team") == ["red", "blue"]
    assert [store.has_index_value("team", each) for each in ("blue", "green")] == [True, False]


def test_an_index_follows_changes_and_deletions(store: IndexedStore[Namespace]) -> None:
    store.put_observed(thing("a", 1, team="red"))
    moved = thing("a", 2, team="blue")
    store.put_observed(moved)
    assert store.index_values("team") == ["blue"]
    assert (store.by_index("team", "red"), store.by_index("team", "blue")) == ([], [moved])
    assert store.remove_observed("a", Uid("u1"), "3") == [(moved, None)]
    assert store.by_index("team", "blue") == []
    assert store.remove_observed("a", Uid("u1"), "3") == [], "a second deletion is no change"


def test_a_known_or_older_version_is_no_change(store: IndexedStore[Namespace]) -> None:
    store.put_observed(thing("a", 5))
    assert store.put_observed(thing("a", 5)) == []
    assert store.put_observed(thing("a", 4)) == []
    assert store.get("a") == thing("a", 5)


def test_a_new_uid_under_an_old_name_is_a_deletion_and_an_addition(
    store: IndexedStore[Namespace],
) -> None:
    old, new = thing("a", 5, uid="u1"), thing("a", 9, uid="u2")
    store.put_observed(old)
    assert store.put_observed(new) == [(old, None), (None, new)]


class TestOwnWrites:
    def test_readers_see_it_at_once_and_handlers_get_it_from_the_watch(
        self, store: IndexedStore[Namespace]
    ) -> None:
        before, written = thing("a", 1), thing("a", 3, team="blue")
        store.put_observed(before)
        assert store.note_written(written)
        assert (store.get("a"), store.by_index("team", "blue")) == (written, [written])
        assert store.seen_by_handlers() == [before]
        assert store.put_observed(thing("a", 2)) == [], "older than what was written"
        assert store.put_observed(written) == [(before, written)]
        assert store.put_observed(written) == []
        assert store.seen_by_handlers() == [written]

    def test_two_in_a_row_are_reported_as_one_change(self, store: IndexedStore[Namespace]) -> None:
        before, last = thing("a", 1), thing("a", 4)
        store.put_observed(before)
        assert store.note_written(thing("a", 3))
        assert store.note_written(last)
        assert not store.note_written(thing("a", 3)), "answers may be processed out of order"
        assert store.put_observed(thing("a", 3)) == []
        assert store.put_observed(last) == [(before, last)]

    def test_a_created_object_is_stored_before_its_watch_event(
        self, store: IndexedStore[Namespace]
    ) -> None:
        created = thing("a", 3)
        assert store.note_written(created)
        assert (store.get("a"), store.seen_by_handlers()) == (created, [])
        assert store.seen_by_handlers_of("a") is None
        assert store.put_observed(created) == [(None, created)]

    def test_an_answer_after_the_deletion_does_not_restore_the_object(
        self, store: IndexedStore[Namespace]
    ) -> None:
        store.put_observed(thing("a", 1))
        store.remove_observed("a", Uid("u1"), "3")
        assert not store.note_written(thing("a", 2))
        assert store.get("a") is None

    def test_an_answer_older_than_a_bookmark_is_no_change(
        self, store: IndexedStore[Namespace]
    ) -> None:
        store.advance("10")
        assert not store.note_written(thing("a", 10))
        assert store.note_written(thing("a", 11))

    def test_the_deletion_of_an_earlier_object_of_the_name_keeps_the_created_one(
        self, store: IndexedStore[Namespace]
    ) -> None:
        old, created = thing("a", 1, uid="u1"), thing("a", 5, uid="u2")
        store.put_observed(old)
        store.note_written(created)
        assert store.remove_observed("a", Uid("u1"), "4") == [(old, None)]
        assert store.get("a") == created
        assert store.put_observed(created) == [(None, created)]

    def test_a_deletion_of_the_written_object_removes_it(
        self, store: IndexedStore[Namespace]
    ) -> None:
        before = thing("a", 1)
        store.put_observed(before)
        store.note_written(thing("a", 3))
        assert store.remove_observed("a", Uid("u1"), "4") == [(before, None)]
        assert store.get("a") is None

    def test_an_object_unknown_to_handlers_is_deleted_without_a_call(
        self, store: IndexedStore[Namespace]
    ) -> None:
        store.note_written(thing("a", 3))
        assert store.remove_observed("a", Uid("u1"), "4") == []


class TestLists:
    def test_an_object_missing_from_a_list_is_deleted(self, store: IndexedStore[Namespace]) -> None:
        a, b = thing("a", 1), thing("b", 2)
        store.put_observed(a)
        store.put_observed(b)
        assert list(store.remove_vanished({"b"}, "9")) == [(a, None)]
        assert store.list() == [b]

    def test_an_object_created_since_the_list_stays(self, store: IndexedStore[Namespace]) -> None:
        store.note_written(thing("a", 10))
        assert list(store.remove_vanished(set(), "9")) == []
        assert store.get("a") is not None
        assert list(store.remove_vanished(set(), "10")) == []
        assert store.get("a") is None

    def test_after_a_restore_from_a_backup_smaller_versions_count(
        self, store: IndexedStore[Namespace]
    ) -> None:
        before, restored, gone = thing("a", 50), thing("a", 7), thing("b", 51)
        store.put_observed(before)
        store.put_observed(gone)
        assert store.put_observed(restored, force=True) == [(before, restored)]
        assert list(store.remove_vanished({"a"}, "8", force=True)) == [(gone, None)]
        store.advance("8", force=True)
        assert store.note_written(thing("a", 9))

    def test_after_a_restore_an_unreadable_object_of_another_uid_takes_the_place(
        self, store: IndexedStore[Namespace]
    ) -> None:
        before = thing("a", 50, uid="u1")
        store.put_observed(before)
        assert store.keep_observed("a", Uid("u2"), "7") == [], (
            "it is of an earlier object of the name"
        )
        assert store.keep_observed("a", Uid("u2"), "7", force=True) == [(before, None)]
        assert len(store) == 0

    def test_what_is_kept_from_a_replaced_history_is_replaced_by_the_next_list(
        self, store: IndexedStore[Namespace]
    ) -> None:
        before = thing("a", 50, uid="u1")
        store.put_observed(before)
        assert store.keep_observed("a", Uid("u1"), "7", force=True) == []
        assert store.is_void("a")
        assert list(store.remove_vanished(set(), "9")) == [(before, None)]
        store.put_observed(thing("a", 10))
        assert not store.is_void("a")

    def test_an_unreadable_version_keeps_the_last_good_one_of_the_same_object(
        self, store: IndexedStore[Namespace]
    ) -> None:
        good = thing("a", 5, uid="u1")
        store.put_observed(good)
        assert store.keep_observed("a", Uid("u1"), "6") == []
        assert store.keep_observed("a", Uid(""), "6") == [], "it may be the same object"
        assert store.get("a") == good
        assert store.keep_observed("a", Uid("u2"), "7") == [(good, None)]
        assert store.get("a") is None


def test_the_transform_is_applied_to_every_object_stored() -> None:
    def shortened(item: Namespace, _before: Namespace | None) -> Namespace:
        meta = item.metadata
        kept = ObjectMeta(name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
        return Namespace(metadata=kept)

    store = IndexedStore[Namespace](transform=shortened)
    changes = store.put_observed(thing("a", 1))
    store.note_written(thing("b", 2))
    assert [each.metadata.labels for each in store.list()] == [{}, {}]
    assert changes == [(None, store.get("a"))]


def test_the_transform_sees_what_an_object_replaces_and_no_version_twice() -> None:
    seen: list[tuple[str, str]] = []

    def noting(item: Namespace, before: Namespace | None) -> Namespace:
        had = "" if before is None else before.metadata.resource_version
        seen.append((had, item.metadata.resource_version))
        return item

    store = IndexedStore[Namespace](transform=noting)
    store.put_observed(thing("a", 1))
    store.note_written(thing("a", 2))
    written = store.get("a")
    assert store.put_observed(thing("a", 2)) == [(thing("a", 1), written)]
    assert store.get("a") is written, "the watch has returned our own write"
    assert seen == [("", "1"), ("1", "2")]
    store.put_observed(thing("a", 2), force=True)
    assert seen[2:] == [("2", "2")], "after a restore the same version may have another content"
    store.put_observed(thing("a", 2, uid="other"), force=True)
    assert len(seen) == 4


@pytest.mark.parametrize(("text", "want"), [("", 0), ("12", 12), ("0", 0), ("abc", 0), ("-1", 0)])
def test_versions_are_numbers(text: str, want: int) -> None:
    assert version_number(text) == want


History = list[tuple[str, str, int, bool]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Draw what a server did to two objects: (name, action, version, whether we wrote it)."""
    size = draw(st.integers(0, 12))
    actions = st.tuples(
        st.sampled_from("ab"), st.sampled_from(["put", "put", "delete"]), st.booleans()
    )
    return [(*draw(actions)[:2], version + 1, draw(st.booleans())) for version in range(size)]


Event = tuple[str, Namespace]


def play(history: History) -> tuple[list[Event], list[Namespace], dict[str, Namespace]]:
    """Return the events of the watch, the answers to our writes, and the final objects."""
    truth: dict[str, Namespace] = {}
    events: list[Event] = []
    answers: list[Namespace] = []
    for name, action, version, ours in history:
        if action == "put":
            uid = truth[name].metadata.uid if name in truth else f"u{version}"
            truth[name] = thing(name, version, uid=uid, team=f"t{version}")
            events.append(("put", truth[name]))
            answers += [truth[name]] if ours else []
        elif name in truth:
            events.append(("delete", thing(name, version, uid=truth.pop(name).metadata.uid)))
    return events, answers, truth


@pytest.mark.properties
@given(histories(), st.data())
def test_whenever_answers_arrive_the_store_is_right_and_handlers_see_one_sequence(
    history: History, data: st.DataObject
) -> None:
    store = IndexedStore[Namespace](indexes={"team": teams_of})
    events, answers, truth = play(history)
    got: dict[str, Namespace | None] = {}

    def hear(changes: list[Change[Namespace]]) -> None:
        for old, new in changes:
            some = new or old
            assert some is not None
            assert got.get(some.metadata.key) == old, "the old of a change is the last new"
            got[some.metadata.key] = new

    while events or answers:
        if answers and (not events or data.draw(st.booleans())):
            store.note_written(answers.pop(data.draw(st.integers(0, len(answers) - 1))))
        else:
            action, item = events.pop(0)
            meta = item.metadata
            if action == "put":
                hear(store.put_observed(item))
            else:
                hear(store.remove_observed(meta.key, meta.uid, meta.resource_version))
        store.validate()
    assert {each.metadata.key: each for each in store.list()} == truth
    assert {key: item for key, item in got.items() if item is not None} == truth
