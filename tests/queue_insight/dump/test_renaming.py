"""Renamed names are in the order of the names that they replace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_insight.dump.renaming import KEPT_WORDS, Renaming, words_of

names = st.text("abklmprz09-./", min_size=1, max_size=12)
mixed = st.lists(names | st.sampled_from(KEPT_WORDS), min_size=2, max_size=12)


def renamed(texts: list[str], key: str = "") -> list[str]:
    found = Renaming([word for text in texts for word in words_of(text)], key)
    return [found.rename(text) for text in texts]


@given(texts=mixed, key=st.sampled_from(["", "k"]))
def test_the_order_and_what_is_equal_stay(texts: list[str], key: str) -> None:
    pairs = list(zip(texts, renamed(texts, key), strict=True))
    for one, other_one in pairs:
        for two, other_two in pairs:
            assert (one < two, one == two) == (other_one < other_two, other_one == other_two)


@pytest.mark.parametrize(
    ("texts", "want"),
    [
        pytest.param(["team-a", "team-a-gpu"], ["t3-a1", "t3-a1-e2"], id="part of another"),
        pytest.param(["root/team_a/b"], ["root/t2/a1"], id="a path"),
        pytest.param(['["ml","*"]'], ['["mb1","*"]'], id="a list"),
        pytest.param(["koordinator-root-quota"], ["koordinator-root-quota"], id="a known name"),
    ],
)
def test_names(texts: list[str], want: list[str]) -> None:
    assert renamed(texts) == want


def test_a_mark_depends_on_the_key_and_not_on_the_rank() -> None:
    one, two = renamed(["ml"], "k")[0], renamed(["ab", "ml"], "k")[1]
    assert one != two
    assert one.partition("x")[2] == two.partition("x")[2]
    assert renamed(["ml"], "other")[0] != one
    assert renamed(["ml"]) == ["mb1"]


def test_kept_words_are_sorted() -> None:
    assert list(KEPT_WORDS) == sorted(KEPT_WORDS)
