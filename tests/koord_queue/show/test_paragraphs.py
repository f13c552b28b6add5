"""Lines are wrapped to a terminal between words, and left as they are in a pipe."""

from __future__ import annotations

import io

import pytest

from koord_queue.show.paragraphs import Line, numbered, rows_as_lines, wrap, write_lines
from koord_queue.show.printer import Printer


def written(*lines: Line, width: int = 40, is_terminal: bool = True) -> list[str]:
    out = io.StringIO()
    printer = Printer(
        out, io.StringIO(), is_terminal=is_terminal, width=width, environment={"NO_COLOR": "1"}
    )
    write_lines(printer, lines)
    return out.getvalue().splitlines()


LONG = "one two three four five six seven eight nine ten eleven"


def test_a_line_of_a_terminal_is_wrapped_below_its_start() -> None:
    assert written(numbered(1, LONG), width=45) == [
        "  1. one two three four five six seven eight",
        "     nine ten eleven",
    ]


def test_a_line_of_a_pipe_and_a_command_are_left_whole() -> None:
    assert written(numbered(1, LONG), is_terminal=False) == [f"  1. {LONG}"]
    assert written(Line(LONG, indent=3, to_copy=True)) == [f"   {LONG}"]


def test_a_text_of_others_cannot_move_the_cursor() -> None:
    assert written(Line("a\x1b[2J\nb")) == ["a\ufffd[2J\ufffdb"]


def test_the_last_column_of_rows_is_wrapped_below_its_start_and_never_cut() -> None:
    lines = list(rows_as_lines(("A", "WHAT"), [("x", ""), ("long", LONG)]))
    assert written(*lines, width=48) == [
        "A      WHAT",
        "x      -",
        "long   one two three four five six seven eight",
        "       nine ten eleven",
    ]
    assert written(*lines, is_terminal=False)[-1] == f"long   {LONG}"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", [""], id="nothing"),
        pytest.param("aaa bbb", ["aaa", "bbb"], id="two words"),
        pytest.param("aaaaaaaa b", ["aaaaaaaa", "b"], id="a long word is not cut"),
        pytest.param("日本 語", ["日本", "語"], id="wide characters take two columns"),
    ],
)
def test_a_text_is_wrapped_between_words(text: str, want: list[str]) -> None:
    assert list(wrap(text, 5)) == want


def test_styles_are_written_to_terminals_with_colors_only() -> None:
    out = io.StringIO()
    printer = Printer(out, io.StringIO(), is_terminal=True, environment={})
    write_lines(printer, [Line("a", "bad")])
    assert out.getvalue() == "\x1b[31ma\x1b[0m\n"
    assert written(Line("a", "bad")) == ["a"]
