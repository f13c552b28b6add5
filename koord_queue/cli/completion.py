"""Completion of words for kubectl, by its own protocol."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from click.shell_completion import CompletionItem

from koord_queue.cli.app import COMPLETION, root
from koord_queue.cli.shells import NamesComplete

NO_FILES: Final = ":4"
"""The directive after which the shell does not complete names of files (cobra's)."""


def complete_for_kubectl() -> None:
    """Print the words that may come next, and the directive; kubectl has split the command line."""
    arguments = sys.argv[1:] or [""]
    for item in complete(arguments[:-1], arguments[-1]):
        told = f"\t{item.help}" if item.help else ""
        sys.stdout.write(f"{item.value}{told}\n")
    sys.stdout.write(f"{NO_FILES}\n")


def complete(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """Return what may come next; nothing if that fails.

    Args:
        words: Those before, without the program's name.
        incomplete: The word that is being typed; may be "".
    """
    try:
        found = NamesComplete(root, {}, "koord-queue", COMPLETION).get_completions(
            list(words), incomplete
        )
    except Exception:  # noqa: BLE001 - a completion that shows a traceback destroys the line
        return []
    return [item for item in found if item.type == "plain"]
