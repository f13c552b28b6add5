"""The output on the terminal."""

from __future__ import annotations

import io

import pytest

from tests.demo.terminal import PLAIN_SECONDS, REFRESH_SECONDS, Terminal, wrap


class NarrowStream(io.StringIO):
    encoding = "ascii"


class ClosedStream(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError


def test_a_table_replaces_the_previous_one() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream, is_live=True)
    terminal.show(["one", "two"], "")
    terminal.show(["three"], "")
    assert stream.getvalue() == ("\x1b[2Kone\n\x1b[2Ktwo\n\x1b[J\x1b[2A\x1b[2Kthree\n\x1b[J")


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("", [""], id="nothing"),
        pytest.param("  short", ["  short"], id="short"),
        pytest.param(f"  {'a' * 60} {'b' * 60}", [f"  {'a' * 60}", f"  {'b' * 60}"], id="long"),
        pytest.param(f"  {'a' * 120}", [f"  {'a' * 120}"], id="one word"),
        pytest.param(f"  export A={'a' * 120}", [f"  export A={'a' * 120}"], id="a command"),
        pytest.param(f"{'a-' * 40} {'b-' * 40}", ["a-" * 40, "b-" * 40], id="no hyphens"),
    ],
)
def test_lines_are_wrapped_to_the_terminal(line: str, want: list[str]) -> None:
    assert wrap(line) == want
    stream = io.StringIO()
    Terminal(stream, is_live=False).say(line)
    assert stream.getvalue().splitlines() == want


def test_permanent_lines_stay() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream, is_live=True)
    terminal.show(["one"], "")
    terminal.say("hello")
    terminal.show(["two"], "")
    assert "\x1b[1A" not in stream.getvalue()


def test_a_log_gets_plain_lines_without_escapes() -> None:
    stream = io.StringIO()
    Terminal(stream).show(["table"], "plain")
    assert stream.getvalue() == "plain\n"


def test_it_is_due_often_on_a_terminal_and_rarely_in_a_log() -> None:
    for is_live, seconds in ((True, REFRESH_SECONDS), (False, PLAIN_SECONDS)):
        terminal = Terminal(io.StringIO(), is_live=is_live)
        assert terminal.is_due(100.0)
        assert not terminal.is_due(100.0 + seconds - 0.01)
        assert terminal.is_due(100.0 + seconds)


def test_characters_outside_the_encoding_are_no_error() -> None:
    stream = NarrowStream()
    Terminal(stream).say("\u2588 bar")
    assert stream.getvalue() == "? bar\n"


def test_a_closed_pipe_is_no_error() -> None:
    Terminal(ClosedStream()).say("anybody there?")
