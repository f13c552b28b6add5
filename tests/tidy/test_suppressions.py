"""Every suppression of a tool has a code and a reason."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.tidy.source_tree import Finding, SourceFile, planted, report, source_files

SUPPRESSION = re.compile(
    r"#\s*(noqa|type:\s*ignore|pragma:\s*no\s*(?:cover|branch))", re.IGNORECASE
)
# For a whole file or a range of lines: that belongs in pyproject.toml, with its reason.
WHOLESALE = re.compile(r"#\s*(?:ruff|flake8|mypy|pyright|pylint):", re.IGNORECASE)
# A complete suppression: the codes, then a dash or a second #.
REASON = r"\s*(?:--?|#)\s*\w.*"
COMPLETE = {
    "noqa": re.compile(r"noqa:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*" + REASON),
    "type": re.compile(r"type:\s*ignore\[[a-z, -]+\]" + REASON),
    "pragma": re.compile(r"pragma:\s*no\s*(?:cover|branch)" + REASON),
}
# Marks that exclude a test; skipif and xfail have a condition, but no reason by themselves.
SILENCING_MARKS = frozenset(("skip", "skipif", "xfail"))


def bare_suppressions(source: SourceFile) -> Iterator[Finding]:
    """Yield comments that silence a tool without code or reason, or for a whole file."""
    for line, comment in _comments(source):
        found = SUPPRESSION.search(comment)
        if WHOLESALE.search(comment):
            yield source.finding(line, "silences a whole file: give it a row in pyproject.toml")
        elif found:
            kind = found.group(1).split(":")[0].lower()
            if not COMPLETE[kind].match(comment[found.start(1) :]):
                yield source.finding(line, f"name the code and the reason: {comment}")


def silent_skips(source: SourceFile) -> Iterator[Finding]:
    """Yield tests that are excluded without a reason."""
    for node in ast.walk(source.tree):
        for decorator in getattr(node, "decorator_list", ()):
            call = decorator if isinstance(decorator, ast.Call) else None
            mark = call.func if call else decorator
            if not isinstance(mark, ast.Attribute) or mark.attr not in SILENCING_MARKS:
                continue
            if call is None or not any(word.arg == "reason" for word in call.keywords):
                yield source.finding(decorator.lineno, f"{mark.attr} without reason=")


def _comments(source: SourceFile) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_every_suppression_has_its_reason() -> None:
    assert report(bare_suppressions, source_files()) == ""


def test_every_skip_has_its_reason() -> None:
    assert report(silent_skips, source_files()) == ""


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "# noqa: S603",
        "# noqa: S603, S607",
        "# NOQA:S603",
        "# type: ignore",
        "# type: ignore[arg-type]",
        "# type: ignore  # the stubs are wrong",
        "# pragma: no cover",
        "# ruff: noqa",
        "# ruff: noqa: S603 - all of them",
        "# mypy: ignore-errors",
        "# ruff: disable[S603]",
        "# the command is ours  # noqa: S603",
    ],
)
def test_bare_suppressions_are_found(comment: str) -> None:
    assert report(bare_suppressions, [planted(f"x = 1  {comment}\n")])


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: S603 - the command is ours",
        "# noqa: S603, S607  # the command is ours",
        "# type: ignore[arg-type]  # the stubs are wrong",
        "# pragma: no cover - only without git",
        "# fmt: skip",
        "# says noqa, and means the word",
    ],
)
def test_complete_suppressions_are_no_finding(comment: str) -> None:
    assert not report(bare_suppressions, [planted(f"x = 1  {comment}\n")])


def test_suppressions_inside_strings_are_text() -> None:
    assert not report(bare_suppressions, [planted("x = '# noqa'\n")])


@pytest.mark.parametrize(
    "mark",
    ["pytest.mark.skip", "pytest.mark.skipif(OLD)", "pytest.mark.xfail(raises=KeyError)"],
)
def test_silent_skips_are_found(mark: str) -> None:
    assert report(silent_skips, [planted(f"@{mark}\ndef test_x(): ...\n")])


def test_skips_with_a_reason_are_no_finding() -> None:
    text = "@pytest.mark.skipif(OLD, reason='needs 3.12')\ndef test_x(): ...\n"
    assert not report(silent_skips, [planted(text)])
