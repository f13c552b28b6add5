from __future__ import annotations

import io

from koord_queue.checks.findings import ok, problem, unknown, warning
from koord_queue.show.finding_lines import lines_of, summary_of
from koord_queue.show.printer import Printer


def printer(*, is_terminal: bool, width: int = 100) -> Printer:
    return Printer(
        io.StringIO(), io.StringIO(), is_terminal=is_terminal, width=width, environment={}
    )


FOUND = [ok("server", "Kubernetes"), problem("leases", "it has stopped", "kubectl -n a-b logs x")]


def test_a_pipe_has_one_line_for_each_finding() -> None:
    assert list(lines_of(FOUND, printer(is_terminal=False))) == [
        "ok       server      Kubernetes",
        "problem  leases      it has stopped -> kubectl -n a-b logs x",
    ]


def test_a_terminal_wraps_sentences_and_has_colors() -> None:
    got = list(lines_of(FOUND, printer(is_terminal=True, width=20)))
    assert got[0].startswith("\x1b[32mok")
    assert got[1].endswith("leases      it has stopped")
    assert got[2] == " " * 21 + "-> kubectl -n a-b logs x"
    command = "kubectl delete apiservice " + "a-b-" * 10
    wrapped = list(lines_of([problem("x", "y", command)], printer(is_terminal=True, width=20)))
    assert " ".join(" ".join(wrapped[1:]).split()) == f"-> {command}"


def test_what_others_have_written_moves_no_cursor() -> None:
    [line] = lines_of([problem("leases", "by \x1b[2J", "x\ny")], printer(is_terminal=False))
    assert line.isprintable()


def test_the_summary_counts_what_is_not_ok() -> None:
    assert summary_of(FOUND[:1]) == "nothing is wrong"
    several = [*FOUND, *FOUND, warning("units", "a", "b"), unknown("crds", "c"), unknown("x", "d")]
    assert summary_of(several) == "2 problems, 1 warning, 2 unknown"
