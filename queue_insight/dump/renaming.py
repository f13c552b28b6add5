"""Other names in the same order. Pure.

The engine breaks ties by name: of equal queues the first has its turn, of equal units the first is
next. So a name must not only be the same everywhere, but stand where it stood. Names are compared
character by character, and consist of words with separators between them, which sort before all
that is in a word. So each word gets another one of its rank, as long as all others: `team-a` and
`team-a-gpu` become `n07-n02` and `n07-n02-n04`.

Some words stay, since the program knows names that are made of them. The other words start with a
letter that keeps their place between those.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

WORD: Final = re.compile(r"\w+")

KEPT_WORDS: Final = (
    *("default", "koord", "koordinator", "kube", "main", "namespace", "queue", "quota"),
    *("requirement", "root", "system"),
)
"""The words of `koordinator-root-quota`, `koord-queue/default-requirement`, `namespace:NS` and the
like; sorted."""

MARK_BYTES: Final = 3


class Renaming:
    """Words by their ranks.

    Args:
        words: All words that are to be renamed.
        key: Marks each word with a hash by it; "": no marks. The same word has the same mark in all
            dumps with this key, while its rank differs.
    """

    def __init__(self, words: Iterable[str], key: str = "") -> None:
        ranked = sorted(set(words) - set(KEPT_WORDS))
        digits = len(str(len(ranked)))
        self._words = {word: word for word in KEPT_WORDS} | {
            word: f"{_letter_before(word)}{rank:0{digits}}{_mark(word, key)}"
            for rank, word in enumerate(ranked, 1)
        }

    def rename(self, name: str) -> str:
        """Return a name, path or list of names with its words replaced."""
        return WORD.sub(lambda match: self._words[match[0]], name)


def words_of(name: str) -> list[str]:
    """Return the words of a name."""
    return WORD.findall(name)


def _mark(word: str, key: str) -> str:
    if not key:
        return ""
    digest = blake2b(word.encode(), key=blake2b(key.encode()).digest(), digest_size=MARK_BYTES)
    return f"x{digest.hexdigest()}"


def _letter_before(word: str) -> str:
    """Return letters with which a new word stands between the same kept words as this one."""
    place = bisect(KEPT_WORDS, word)
    after = KEPT_WORDS[place - 1] if place else ""
    before = KEPT_WORDS[place] if place < len(KEPT_WORDS) else "{"
    return _between(after, before)


def _between(after: str, before: str) -> str:
    """Return the shortest letters so that whatever starts with them is between two words."""
    for length in range(len(after) + 1):
        letter = chr(ord(after[length]) + 1) if length < len(after) else "a"
        found = after[:length] + letter
        if letter <= "z" and after < found < before and not before.startswith(found):
            return found
    raise AssertionError(f"nothing is between {after} and {before}")
