"""The folder outside the checkout where built and fetched tools are kept, and its lock.

A fresh clone finds what an earlier one built. Several test processes may ask at the same moment:
whoever makes something holds the lock, and makes it visible by a rename only when it is whole.
"""

from __future__ import annotations

import fcntl
import functools
import os
import pwd
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

LOG_TAIL_LINES = 15
PIP_TAIL_LINES = 3
# A fetch of 70 MB on a slow line; beyond this the network is as good as absent.
PIP_SECONDS = 900

Report = Callable[[str], None]


class BinariesUnavailable(Exception):
    """A tool could neither be found nor made; the message says why in one or a few lines."""


def remember_outcome(find: Callable[[], Path]) -> Callable[[], Path]:
    """The same search, asked again it answers what it did before.

    The memory includes failure, so that a suite does not try a hopeless build once per test.
    """

    @functools.cache
    def outcome() -> Path | BinariesUnavailable:
        try:
            return find()
        except BinariesUnavailable as error:
            return error

    def ask() -> Path:
        found = outcome()
        if isinstance(found, BinariesUnavailable):
            raise found
        return found

    return ask


def report_to_stderr(line: str) -> None:
    """Writes one progress line where it does not mix with a result on stdout."""
    sys.stderr.write(f"controlplane: {line}\n")
    sys.stderr.flush()


def tail(text: str, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log, for an error message."""
    return "\n".join(text.strip().splitlines()[-lines:])


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of all tools of this project; it exists when this returns.

    `$XDG_CACHE_HOME`, else `~/.cache`. Where HOME is empty the account's home counts, and where
    that cannot be written, a folder of this user among the temporary files.

    Raises:
        BinariesUnavailable: no folder can be made, or it belongs to somebody else, whose binaries
            must not be run.
    """
    refused = []
    for base in _cache_bases(environ):
        folder = base / "koord-queue" / "controlplane"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            refused.append(str(error))
            continue
        if folder.stat().st_uid != os.getuid() or not os.access(folder, os.W_OK):
            refused.append(f"{folder} belongs to another user or cannot be written")
            continue
        return folder
    raise BinariesUnavailable("no cache folder can be written: " + "; ".join(refused))


def _cache_bases(environ: Mapping[str, str]) -> Iterator[Path]:
    xdg = environ.get("XDG_CACHE_HOME", "")
    if Path(xdg).is_absolute():
        yield Path(xdg)
    home = environ.get("HOME", "")
    if Path(home).is_absolute():
        yield Path(home) / ".cache"
    else:
        with suppress(KeyError):  # a container may run under a number that no account has
            yield Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache"
    yield Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"


@contextmanager
def maker_lock(report: Report) -> Iterator[Path]:
    """Holds the one lock under which tools are made; yields the cache folder.

    The kernel lets go of it when the process dies, so that a killed build blocks nobody.
    """
    folder = cache_folder()
    with (folder / "lock").open("w") as lock_file:
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process is at it already; waiting for it to finish")
            fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield folder


def run_pip(*arguments: str) -> None:
    """Runs the pip of the running interpreter.

    Raises:
        BinariesUnavailable: there is no pip, or it failed; with the end of what it said.
    """
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BinariesUnavailable(f"pip took over {PIP_SECONDS} s; is there a network?") from error
    if done.returncode != 0:
        raise BinariesUnavailable(_why_pip_failed(arguments[0], done.stdout + done.stderr))


def _why_pip_failed(action: str, log: str) -> str:
    # pip says first, once for each attempt, that it cannot connect, and at the end that there is
    # no such package.
    unreachable = re.search(r"Failed to resolve|Failed to establish|Connection", log)
    question = "; is there a network?" if unreachable else ""
    return f"pip {action} failed{question}\n{tail(log, PIP_TAIL_LINES)}"
