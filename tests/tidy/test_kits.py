"""CONTRIBUTING names the kits and worlds that tests of several rooms stand on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from tests.tidy.source_tree import ROOT, SourceFile, planted, source_files

KIT = re.compile(r"_(kit|world|town|team)$")


def kits_of_several_rooms(sources: Iterable[SourceFile]) -> set[str]:
    """Return the paths of kits that a file outside of their folder imports, or that are in none."""
    known = {
        str(each.path.with_suffix("")).replace("/", "."): each.path
        for each in sources
        if each.path.parts[0] == "tests" and KIT.search(each.path.stem)
    }
    return {
        str(known[name])
        for each in sources
        for name in _imported(each.tree)
        # The last two folders are `tests` and the root: what is there is for all rooms.
        if name in known and known[name].parent not in each.path.parents[:-2]
    }


def _imported(tree: ast.Module) -> set[str]:
    return {
        node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }


def named_paths(page: str) -> set[str]:
    """Return the files of tests that a page names in code."""
    return set(re.findall(r"`(tests/[\w/]+\.py)`", page))


def test_each_kit_of_several_rooms_is_in_a_table() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, heading, tables = page.partition("### Which kit a test stands on\n")
    assert heading
    found = kits_of_several_rooms(source_files())
    assert len(found) > 20
    assert found - named_paths(tables.partition("\n## ")[0]) == set()


def test_each_file_of_tests_that_is_named_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [path for path in sorted(named_paths(page)) if not (ROOT / path).is_file()] == []


def test_a_kit_counts_from_its_second_room_on() -> None:
    kit = planted("", "tests/a/some_kit.py")
    text = "from tests.a.some_kit import build\n"
    own = planted(text, "tests/a/test_it.py")
    below = planted(text, "tests/a/b/test_it.py")
    assert kits_of_several_rooms([kit, own, below]) == set()
    other = planted(text, "tests/c/test_it.py")
    assert kits_of_several_rooms([kit, own, other]) == {"tests/a/some_kit.py"}
    common = planted("", "tests/some_kit.py")
    user = planted("from tests.some_kit import build\n", "tests/a/test_it.py")
    assert kits_of_several_rooms([common, user]) == {"tests/some_kit.py"}
