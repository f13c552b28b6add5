"""Names of queues, derived from paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import permutations

import pytest

from queue_scheduler.quota.tree_queue_names import MAX_NAME, TreeQueueNames, named_node
from shared_api.testing.object_builders import queue

SLASH, DASH = "root/a/b", "root/a-b"
"""Rivals: the plain name of both is `root-a-b`."""
LONG = "root/" + "very-long-name/" * 6 + "end"


def name_queues(paths: Iterable[str], said: Mapping[str, str] | None = None) -> dict[str, str]:
    return TreeQueueNames(paths).name_all((said or {}).get)


SLASH_HASHED = name_queues([DASH, SLASH])[SLASH]
DASH_HASHED = name_queues([DASH, SLASH], {"root-a-b": SLASH})[DASH]


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
def test_a_path_that_is_not_a_valid_name_becomes_one(path: str) -> None:
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
    assert name_queues(reversed(paths)) == names, "in any order of arrival"
    assert list(names) == sorted(paths)


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param({}, ("root-a-b", SLASH_HASHED), id="no queue: the first by path"),
        pytest.param({"root-a-b": DASH}, ("root-a-b", SLASH_HASHED), id="it is the first's"),
        pytest.param({"root-a-b": SLASH}, (DASH_HASHED, "root-a-b"), id="it is the second's"),
        pytest.param({"root-a-b": ""}, ("root-a-b", SLASH_HASHED), id="it says nothing"),
        pytest.param({"root-a-b": "root/A/b"}, ("root-a-b", SLASH_HASHED), id="no such node"),
        pytest.param({"root-a-b": "root"}, ("root-a-b", SLASH_HASHED), id="it says nonsense"),
        pytest.param(
            {"root-a-b": SLASH, DASH_HASHED: DASH}, (DASH_HASHED, "root-a-b"), id="both exist"
        ),
        pytest.param(
            {DASH_HASHED: DASH}, (DASH_HASHED, "root-a-b"), id="the second's is deleted by hand"
        ),
        pytest.param({SLASH_HASHED: ""}, ("root-a-b", SLASH_HASHED), id="a hash says enough"),
        pytest.param(
            {"root-a-b": DASH, DASH_HASHED: DASH},
            (DASH_HASHED, "root-a-b"),
            id="edited by hand: it is the other's after all",
        ),
        pytest.param(
            {"root-a-b": "", SLASH_HASHED: SLASH, DASH_HASHED: DASH},
            (DASH_HASHED, SLASH_HASHED),
            id="a user created the plain one",
        ),
    ],
)
def test_a_queue_keeps_its_node(said: dict[str, str], want: tuple[str, str]) -> None:
    nodes = TreeQueueNames([SLASH, DASH, "root/a"])
    names = nodes.name_all(said.get)
    assert (names[DASH], names[SLASH]) == want
    assert names["root/a"] == "root-a"
    rivals = {DASH: want[0], SLASH: want[1]}
    for name in ("root-a-b", DASH_HASHED, SLASH_HASHED):
        assert nodes.name_rivals(name, said.get) == rivals


def test_a_remaining_node_keeps_its_name() -> None:
    assert name_queues([DASH], {DASH_HASHED: DASH}) == {DASH: DASH_HASHED}
    assert name_queues([DASH], {"root-a-b": SLASH}) == {DASH: "root-a-b"}, "and nowhere else"


@pytest.mark.parametrize("arrivals", list(permutations([SLASH, DASH, "root/A/b"])))
def test_the_first_node_keeps_the_plain_name(arrivals: tuple[str, ...]) -> None:
    said: dict[str, str] = {}
    had: dict[str, str] = {}
    for count in range(1, len(arrivals) + 1):
        names = name_queues(arrivals[:count], said)
        assert had.items() <= names.items(), "no node's queue becomes another"
        said.update({name: path for path, name in names.items()})
        had = names
    assert had[arrivals[0]] == "root-a-b"
    assert len(set(had.values())) == len(arrivals)
    assert name_queues(reversed(arrivals), said) == had, "a restart gives the same"


def test_a_queue_names_its_node_under_both_names_of_the_annotation() -> None:
    for prefix in ("koord-queue", "kube-queue"):
        assert (
            named_node(queue("q", metadata={"annotations": {f"{prefix}/quota-fullname": "r"}}))
            == "r"
        )
    assert named_node(queue("q")) == ""


def test_the_plain_name_beside_a_hashed_one() -> None:
    nodes = TreeQueueNames([SLASH, DASH, LONG])
    assert nodes.plain_beside(SLASH_HASHED) == "root-a-b"
    assert nodes.plain_beside("root-a-b") == ""
    assert nodes.plain_beside(name_queues([LONG])[LONG]) == "", "it has none"
