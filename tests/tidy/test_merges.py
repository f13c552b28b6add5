"""No file has the marks of a merge that was not finished."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.tidy.source_tree import ROOT, project_files

MARKS: Final = tuple(character * 7 + b" " for character in (b"<", b">"))


def unfinished(content: bytes) -> Iterator[int]:
    """Yield the numbers of lines that only a merge writes."""
    for number, line in enumerate(content.splitlines(), 1):
        if line.startswith(MARKS):
            yield number


def test_all_merges_are_finished() -> None:
    found = {str(path): list(unfinished((ROOT / path).read_bytes())) for path in project_files()}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize("mark", MARKS)
def test_marks_are_found(mark: bytes) -> None:
    assert list(unfinished(b"one\n" + mark + b"main\n")) == [2]
