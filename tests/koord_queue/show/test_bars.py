from __future__ import annotations

import pytest

from koord_queue.show.bars import ASCII, BLOCKS, bar, bar_width, branches, letters_for, percent


@pytest.mark.parametrize(
    ("share", "want_bar", "want_percent"),
    [
        pytest.param(0.0, "........", "0%", id="nothing is used"),
        pytest.param(0.5, "####....", "50%", id="half is used"),
        pytest.param(1.0, "########", "100%", id="all is used"),
        pytest.param(0.001, "#.......", "1%", id="a trace is not nothing"),
        pytest.param(0.999, "#######.", "99%", id="almost all is not all"),
        pytest.param(1.5, "########", "150%", id="more than all fills the bar"),
        pytest.param(-0.5, "........", "-50%", id="less than nothing is an empty bar"),
    ],
)
def test_a_bar_shows_what_is_used(share: float, want_bar: str, want_percent: str) -> None:
    assert bar(share, 8, ASCII) == want_bar
    assert percent(share) == want_percent


@pytest.mark.parametrize(
    ("left", "want"),
    [
        pytest.param(7, 0, id="too narrow for a bar"),
        pytest.param(8, 8, id="just wide enough"),
        pytest.param(200, 30, id="a wide terminal"),
    ],
)
def test_a_bar_takes_what_is_left_of_the_width(left: int, want: int) -> None:
    assert bar_width(left) == want


@pytest.mark.parametrize(
    ("encoding", "want"),
    [
        pytest.param("utf-8", BLOCKS, id="UTF-8 has blocks"),
        pytest.param("ascii", ASCII, id="ASCII has none"),
        pytest.param("latin-1", ASCII, id="Latin-1 has none"),
        pytest.param("no-such-encoding", ASCII, id="an unknown encoding"),
        pytest.param(None, ASCII, id="no encoding"),
    ],
)
def test_blocks_are_drawn_where_the_encoding_has_them(encoding: str | None, want: object) -> None:
    assert letters_for(encoding) is want


def test_a_tree_is_drawn_with_branches() -> None:
    names = ["org", "a", "a1", "a2", "b", "b1", "other"]
    drawn = branches([0, 1, 2, 2, 1, 2, 0], ASCII)
    assert [before + name for before, name in zip(drawn, names, strict=True)] == [
        "org",
        "|- a",
        "|  |- a1",
        "|  `- a2",
        "`- b",
        "   `- b1",
        "other",
    ]
