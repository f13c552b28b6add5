"""What a terminal shows, and what a pipe gets."""

from __future__ import annotations

import io
from typing import Final

import pytest

from koord_queue.show.printer import Printer
from tests.cluster.command_line_kit import without_styles

ROWS: Final = [
    ["a", "Running", "short"],
    ["日本", "", "a long \x1b[31m sentence that does not fit"],
]


def printed(
    *, is_terminal: bool, width: int = 30, environment: dict[str, str] | None = None
) -> tuple[Printer, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    printer = Printer(out, err, is_terminal=is_terminal, width=width, environment=environment or {})
    return printer, out, err


def test_a_pipe_gets_aligned_columns_and_all_text() -> None:
    printer, out, _ = printed(is_terminal=False)
    printer.table(["NAME", "STATE", "WHY"], ROWS, {"Running": "good"})
    assert out.getvalue().splitlines() == [
        "NAME   STATE     WHY",
        "a      Running   short",
        "日本     -         a long \N{REPLACEMENT CHARACTER}[31m sentence that does not fit",
    ]


def test_in_a_pipe_only_the_last_cell_of_a_row_has_spaces() -> None:
    """Each row has as many words, for awk and its like."""
    printer, out, _ = printed(is_terminal=False)
    rows = [["a", "not known yet: 3 of 5 runs", "needs more cpu"], ["b", "5m", ""]]
    printer.table(["NAME", "STARTS", "WHY"], rows)
    assert [line.split(maxsplit=2) for line in out.getvalue().splitlines()] == [
        ["NAME", "STARTS", "WHY"],
        ["a", "not-known-yet:-3-of-5-runs", "needs more cpu"],
        ["b", "5m", "-"],
    ]


def test_a_terminal_cuts_the_last_column_alone_and_counts_wide_characters() -> None:
    printer, out, _ = printed(is_terminal=True)
    printer.table(["NAME", "STATE", "WHY"], ROWS, {"Running": "good"})
    assert "\x1b[32mRunning\x1b[0m" in out.getvalue()
    assert [line.rstrip() for line in without_styles(out.getvalue()).splitlines()] == [
        "NAME  STATE    WHY",
        "a     Running  short",
        "日本  -        a long \N{REPLACEMENT CHARACTER}[31m s…",
    ]


def test_a_table_that_does_not_fit_is_not_cut() -> None:
    printer, out, _ = printed(is_terminal=True, width=20)
    printer.table(["NAME", "STATE", "WHY"], ROWS, {})
    assert "a long \N{REPLACEMENT CHARACTER}[31m sentence that does not fit" in out.getvalue()


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colors(environment: dict[str, str]) -> None:
    printer, out, _ = printed(is_terminal=True, environment=environment)
    printer.table(["NAME", "STATE", "WHY"], ROWS, {"Running": "good"})
    printer.line(printer.style("x", "bad"))
    assert "\x1b[3" not in out.getvalue()


def test_sentences_are_wrapped_on_a_terminal_only() -> None:
    sentence = "needs more cpu than the max of quota team-a leaves"
    for is_terminal, want in (
        (True, ["  needs more cpu than the max", "  of quota team-a leaves"]),
        (False, [f"  {sentence}"]),
    ):
        printer, out, _ = printed(is_terminal=is_terminal)
        printer.paragraph(sentence, "  ")
        assert out.getvalue().splitlines() == want


def test_notes_are_no_part_of_the_answer() -> None:
    printer, out, err = printed(is_terminal=False)
    printer.note("nobody answers")
    assert (out.getvalue(), err.getvalue()) == ("", "note: nobody answers\n")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("123456789", "123456789", id="it fits"),
        pytest.param("1234567890", "12345678…", id="it would fill the line"),
        pytest.param("訓練訓練訓練", "訓練訓練…", id="wide characters"),
    ],
)
def test_a_status_line_is_written_over_and_cut(text: str, want: str) -> None:
    printer, out, _ = printed(is_terminal=True, width=10)
    printer.status(text)
    printer.end_status()
    printer.end_status()
    assert out.getvalue() == f"\r{want}\x1b[K\n"
