"""Every entry of DECISIONS.md is in the index by subject, or is replaced."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import pytest

from tests.tidy.source_tree import ROOT

TEXT: Final = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")

_SECTION: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[(\d+)\]\(#d(\d+)\)")
_ENTRY: Final = re.compile(r'^(\d+)\. (?:<a id="d(\d+)"></a>)?\*\*', re.MULTILINE)


def sections(text: str) -> dict[str, str]:
    """Return the text under each heading of the second level."""
    _, *parts = _SECTION.split(text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def entries(text: str) -> list[str]:
    """Return the numbers of a section's entries, in order."""
    return [number for number, _ in _ENTRY.findall(text)]


def badly_placed(text: str) -> list[str]:
    """Return the errors in the index of the entries, each with its number."""
    parts = sections(text)
    links = Counter(to for _, to in _LINK.findall(parts["By subject"]))
    standing, replaced = entries(parts["The decisions"]), entries(parts["Replaced"])
    wrong = [f"{number}: {links[number]} times in the index" for number in standing]
    wrong = [each for each in wrong if not each.endswith(": 1 times in the index")]
    wrong += [f"{number}: replaced, and in the index" for number in replaced if links[number]]
    wrong += [f"{number}: no such entry" for number in links.keys() - {*standing, *replaced}]
    return wrong


def test_every_entry_is_in_the_index_once_or_replaced() -> None:
    assert badly_placed(TEXT) == []


@pytest.mark.parametrize(
    ("index", "want"),
    [
        ("[1](#d1) a, [2](#d2) b", []),
        ("[1](#d1) a", ["2: 0 times in the index"]),
        ("[1](#d1) a, [2](#d2) b, [1](#d1) c", ["1: 2 times in the index"]),
        ("[1](#d1) a, [2](#d2) b, [3](#d3) c", ["3: replaced, and in the index"]),
        ("[1](#d1) a, [2](#d2) b, [4](#d4) c", ["4: no such entry"]),
    ],
)
def test_an_error_in_the_index_is_found(index: str, want: list[str]) -> None:
    text = f"# D\n\n## By subject\n\n{index}\n\n## The decisions\n\n1. **A.**\n\n2. **B.**\n"
    assert badly_placed(f"{text}\n## Replaced\n\n3. **C.** By 2.\n") == want


def test_a_link_has_the_number_of_its_entry() -> None:
    assert [link for link in _LINK.findall(TEXT) if link[0] != link[1]] == []
    assert [entry for entry in _ENTRY.findall(TEXT) if entry[0] != entry[1]] == []


def test_numbers_are_without_gaps_and_in_order() -> None:
    parts = sections(TEXT)
    found = [[int(number) for number in entries(parts[name])] for name in list(parts)[1:]]
    assert found == [sorted(numbers) for numbers in found]
    numbers = sorted(number for each in found for number in each)
    assert numbers == list(range(1, len(numbers) + 1))
