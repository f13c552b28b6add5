from __future__ import annotations

from queue_scheduler.quota_cache.tree_changes import TreeChanges
from shared_api.well_known_labels import ROOT_QUOTA


def test_freed_room_is_noted_where_it_is_watched() -> None:
    changes = TreeChanges()
    changes.watch("parent")
    changes.watch(ROOT_QUOTA)
    changes.note_room(("quota", "parent"), in_root=False)
    assert list(changes.touched) == ["parent"]
    changes.note_room(("quota", "parent"), in_root=True)
    assert list(changes.touched) == ["parent", ROOT_QUOTA]
    assert changes.is_room_freed


def test_the_clock_shows_when_something_was_charged_below_a_quota() -> None:
    changes = TreeChanges()
    changes.note_division(("quota",), ("pods",))
    changes.start()
    assert (changes.clock, changes.charged_at("quota"), changes.settled_at) == (0, 0, 0)
    changes.note_division(("quota", "parent"), ("cpu", "memory"))
    assert [changes.charged_at(name) for name in ("quota", "parent", "other")] == [1, 1, 0]
    assert list(changes.keys) == ["cpu", "memory"]


def test_settled_changes_are_forgotten_but_watches_stay() -> None:
    changes = TreeChanges()
    changes.watch("quota")
    changes.note_division(("quota",), ("cpu",))
    changes.note_room(("quota",), in_root=True)
    changes.note_entitlements()
    changes.settle()
    assert not changes.touched
    assert not changes.keys
    assert not changes.is_room_freed
    assert not changes.is_entitled_anew
    assert changes.settled_at == changes.clock == 1
    changes.note_room(("quota",), in_root=True)
    assert list(changes.touched) == ["quota"]


def test_a_supposition_leaves_no_mark() -> None:
    changes = TreeChanges()
    changes.watch("quota")
    changes.watch("other")
    changes.note_room(("other",), in_root=True)
    noted = changes.save_marks()
    changes.note_room(("quota",), in_root=True)
    changes.note_entitlements()
    changes.restore_marks(noted)
    assert list(changes.touched) == ["other"]
    assert changes.is_room_freed
    assert not changes.is_entitled_anew
