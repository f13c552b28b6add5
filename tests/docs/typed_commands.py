"""Every command in the pages for users: which are run by a test, and why the others are not."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from tests.tidy.user_pages import read_pages

PLAYED: Final[Mapping[str, str]] = {
    "README.md": "test_start_pages.py",
    "start/without-koordinator.md": "test_start_pages.py",
    "start/with-koordinator.md": "test_start_pages.py",
    "how-to/run-the-cluster.md": "test_start_pages.py",
    "how-to/submit-jobs.md": "test_how_to_pages.py",
    "how-to/lead-a-team.md": "test_how_to_pages.py",
    "troubleshooting.md": "test_how_to_pages.py",
    "why-waiting.md": "test_why_waiting_page.py",
    "what-if.md": "test_dump_and_what_if_pages.py",
    "dump.md": "test_dump_and_what_if_pages.py",
}
"""Pages that a file of tests/cluster reads from top to bottom: commands with a prompt are typed,
and show what the page shows. Of all other pages each command is typed by itself."""

NOT_TYPED: Final[tuple[tuple[str, str], ...]] = (
    (r"kind |docker |make image", "needs a container engine"),
    (r"make ", "a step of the project that runs by itself"),
    (r"pip ", "installs packages"),
    (r"koord-queue when job/train-7$", "knows nothing yet: tests/cluster/test_insight_answers.py"),
    (r"helm repo|helm install koordinator ", "reads a repository of charts"),
    (
        r"helm (install|upgrade) ",
        "is typed on the start pages, and tests/charts has the values",
    ),
    (r".*(port-forward|\bexec\b|\blogs\b)", "needs a kubelet"),
    (r".*(--watch\b|\| source$)", "goes on until Ctrl-C, or is for another shell"),
    (r".*\b(NAME|SERVICEACCOUNT|COMMAND|CLUSTER-QUEUE)\b", "has a placeholder"),
    (r"curl --cacert", "asks a Service of the chart: tests/cluster/test_debug_access.py"),
    (
        r".*at[= ]'?(2026|tuesday)",
        "is before any record: tests/cluster/test_recorded_run.py",
    ),
    (
        r"(kubectl )?koord-queue check",
        "is typed in how-to/run-the-cluster.md",
    ),
    (r"kubectl patch elasticquota\.", "is what another command has printed"),
    (
        r"koord-queue import|kubectl .*(kueue|clusterqueue)",
        "needs Kueue: tests/cluster/test_way_in.py",
    ),
    (r"kubectl get --raw /metrics", "shows nothing while nothing is rejected"),
    (r".*\$kind ", "is a part of a loop"),
    (r"koord-queue report", "needs accounts: tests/koord_queue/cli/test_report.py"),
    (r"koord-queue replay", "takes long: tests/queue_insight/replay"),
)
"""Commands without a prompt, or outside of the pages above, that no test types, and why."""

PROGRAMS: Final = (
    "koord-queue",
    "kubectl",
    "helm",
    "curl",
    "make",
    "pip",
    "kind",
    "docker",
    "source",
)

_LINE: Final = re.compile(
    rf"^ {{4,}}(?P<prompt>\$ )?(?P<command>(?:{'|'.join(PROGRAMS)}) (?=\S)(?:\\\n|[^\n])*)",
    re.MULTILINE,
)
_SHOWN: Final = re.compile(r"^( {4,})(\$ [^\n]+\n)((?:\1(?!\$ )[^\n]*\n)+)", re.MULTILINE)
_FENCED: Final = re.compile(r"^```(?:console|bash|sh|shell)\b", re.MULTILINE)


class Typed(NamedTuple):
    """A command of a page; `line`: its number; `has_prompt`: a `$` stands before it."""

    line: int
    text: str
    has_prompt: bool


def commands(text: str) -> Iterator[Typed]:
    """Yield the commands in the indented blocks of a page."""
    # What a command shows may be commands, too.
    text = _SHOWN.sub(lambda match: match[1] + match[2] + "\n" * match[3].count("\n"), text)
    for match in _LINE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        whole = re.sub(r"\\\n\s*", "", match["command"])
        yield Typed(line, whole.partition("   #")[0].rstrip(), match["prompt"] is not None)


def has_fenced_commands(text: str) -> bool:
    """Return whether a page has commands in a form that is not looked for."""
    return _FENCED.search(text) is not None


def why_not_typed(command: str) -> str:
    """Return the pattern of `NOT_TYPED` that a command is covered by; "" if there is none."""
    return next((pattern for pattern, _ in NOT_TYPED if re.match(pattern, command)), "")


def examples(pages: Mapping[str, str]) -> list[str]:
    """Return the pages whose commands are typed one by one, by test_example_commands.py."""
    return [page for page in sorted(pages) if page not in PLAYED and list(typed(pages[page]))]


def typed(text: str) -> Iterator[Typed]:
    """Yield the commands of a page that a test can type."""
    return (each for each in commands(text) if not why_not_typed(each.text))


def read_commands() -> dict[str, str]:
    """Return the pages for users by their names."""
    return {page_name(path): text for path, text in read_pages(of_users=True).items()}


def page_name(path: PurePosixPath) -> str:
    """Return the path of a page below docs/; README.md has its own name."""
    return str(PurePosixPath(*path.parts[1:])) if path.parts[0] == "docs" else str(path)


def own_arguments(command: str) -> list[list[str]]:
    """Return the arguments of each call of `koord-queue` in a command line of a shell."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    calls: list[list[str]] = []
    is_first, is_ours = True, False
    for word in lexer:
        if set(word) <= set("|&;()<>"):
            is_first, is_ours = True, False
        elif is_first:
            is_first, is_ours = False, word == "koord-queue"
            calls += [[]] if is_ours else []
        elif is_ours:
            calls[-1].append(word)
    return calls
