"""Names of queues that follow from paths."""

from __future__ import annotations

import re

import pytest

from queue_scheduler.quota.node_queues import MAX_NAME, name_queues

LONG = "root/" + "very-long-name/" * 6 + "end"


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("root", "root"),
        ("root/a", "root-a"),
        ("root/Team_A/b", "root-team-a-b"),
        ("root/root.b/root.b.1", "root-root.b-root.b.1"),
    ],
)
def test_a_path_is_a_name(path: str, want: str) -> None:
    assert name_queues([path]) == {path: want}


@pytest.mark.parametrize("path", [LONG, "root/ä b", "root/a.", "root/-.x", "root/.."])
def test_what_is_no_name_for_an_object_becomes_one(path: str) -> None:
    name = name_queues([path])[path]
    assert len(name) <= MAX_NAME
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?-[0-9a-f]{8}", name), name


def test_the_end_of_a_long_path_is_kept() -> None:
    assert "-end-" in name_queues([LONG])[LONG]


def test_two_paths_never_have_one_name() -> None:
    paths = ["root/a/b", "root/a-b", "root/a_b", "root/A/b", LONG, f"{LONG}2"]
    names = name_queues(paths)
    assert len(set(names.values())) == len(paths)
    assert "root-a-b" in names.values()
    assert name_queues(reversed(paths)) == names, "whatever order they are told in"
