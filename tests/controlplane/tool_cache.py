"""The folder outside the checkout for built and fetched tools, and its lock.

A fresh clone finds what an earlier one built. Several test processes may search at the same time: a
process that builds a tool holds the lock, and makes it visible by a rename once it is complete.
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
# For a fetch of 70 MB over a slow network.
PIP_SECONDS = 900

Report = Callable[[str], None]


class BinariesUnavailable(Exception):
    """A tool was not found and could not be built; the message has the reason in a few lines."""


def remember_outcome(find: Callable[[], Path]) -> Callable[[], Path]:
    """Return the same search, which repeats its first result.

    This includes failures, so that a suite does not retry a failing build in every test.
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
    """Write a progress line to stderr, separate from a result on stdout."""
    sys.stderr.write(f"controlplane: {line}\n")
    sys.stderr.flush()


def tail(text: str, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log, for an error message."""
    return "\n".join(text.strip().splitlines()[-lines:])


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of all tools of this project; create it if needed.

    It is in `$XDG_CACHE_HOME`, else in `~/.cache`. Without HOME, the account's home is used, and if
    that cannot be written, a folder of this user among the temporary files.

    Raises:
        BinariesUnavailable: No folder can be created, or it belongs to another user, whose
            binaries must not be run.
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
        with suppress(KeyError):  # a container may have a user id without an account
            yield Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache"
    yield Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"


@contextmanager
def maker_lock(report: Report) -> Iterator[Path]:
    """Hold the lock under which tools are built; yield the cache folder.

    The kernel releases it when the process ends, so that a killed build blocks no other process.
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
    """Run the pip of the current interpreter.

    Raises:
        BinariesUnavailable: There is no pip, or it failed; the message has the end of its output.
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
    # pip first reports, once per attempt, that it cannot connect, and finally that there is no
    # such package.
    unreachable = re.search(r"Failed to resolve|Failed to establish|Connection", log)
    question = "; is there a network?" if unreachable else ""
    return f"pip {action} failed{question}\n{tail(log, PIP_TAIL_LINES)}"
