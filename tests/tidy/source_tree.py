"""The files of the checkout, read and parsed once; the input and output of rules."""

from __future__ import annotations

import ast
import functools
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "koord_queue",
    "shared_api",
    "queue_scheduler",
    "queue_insight",
    "queue_admission_checks",
    "queue_controllers",
)
# What an unpacked archive may contain in addition to the project, without git.
NOT_OURS = {".git", ".venv", "build", "dist", "__pycache__"}

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """One violation of a rule, in a format that editors can jump to."""

    path: PurePosixPath
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class SourceFile:
    """A Python file; ``path`` is relative to the root."""

    path: PurePosixPath
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        """The parsed file. Every node has line numbers."""
        return ast.parse(self.text, filename=str(self.path))

    @property
    def is_shipped(self) -> bool:
        """Whether the file belongs to one of the packages."""
        return self.path.parts[0] in PACKAGES

    def finding(self, line: int, message: str) -> Finding:
        """Return a finding in this file."""
        return Finding(self.path, line, message)


Rule = Callable[[SourceFile], Iterable[Finding]]


@functools.cache
def project_files() -> tuple[PurePosixPath, ...]:
    """Return every file that is tracked or could be committed, sorted, relative to the root."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file()]
    paths = {PurePosixPath(name) for name in listed if name}
    return tuple(
        sorted(path for path in paths if not NOT_OURS & set(path.parts) and (ROOT / path).is_file())
    )


@functools.cache
def source_files() -> tuple[SourceFile, ...]:
    """Return every Python file of the project, sorted by path."""
    return tuple(
        SourceFile(path, (ROOT / path).read_text(encoding="utf-8"))
        for path in project_files()
        if path.suffix == ".py"
    )


def shipped_files() -> Iterator[SourceFile]:
    """Yield the Python files of the three packages."""
    return (source for source in source_files() if source.is_shipped)


def mirrored_modules(test: PurePosixPath) -> frozenset[PurePosixPath]:
    """Return the modules that a unit test may belong to by its path, without their suffix.

    ``test_reflector_relist.py`` belongs to ``reflector_relist`` or to ``reflector``, be it a module
    or a package; ``test_main.py`` to ``__main__``.
    """
    words = test.stem.removeprefix("test_").split("_")
    names = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
    folder = PurePosixPath(*test.parts[1:-1])
    return frozenset(folder / name for name in (*names, f"__{'_'.join(words)}__"))


def planted(text: str, path: str = "queue_scheduler/engine/engine.py") -> SourceFile:
    """Return a source that exists only in a test of a rule."""
    return SourceFile(PurePosixPath(path), text)


def functions(source: SourceFile) -> Iterator[FunctionNode]:
    """Yield every function and method of a file, including nested ones."""
    for node in ast.walk(source.tree):
        if isinstance(node, FunctionNode):
            yield node


def report(rule: Rule, sources: Iterable[SourceFile]) -> str:
    """Return all findings of a rule, one per line; "" if there is none."""
    return "\n".join(str(finding) for source in sources for finding in rule(source))
