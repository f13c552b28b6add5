"""The commands that take or ask a dump: what each does, and what it shows."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from pydantic import BaseModel

from queue_scheduler.dump.anonymize import anonymize
from queue_scheduler.dump.codec import DumpError, decode_dump, encode_dump
from queue_scheduler.offline import text
from queue_scheduler.offline.answers import AnswerError, OfflineAnswers, to_json
from queue_scheduler.offline.fetch import fetch_dump
from queue_scheduler.offline.flags import STDOUT
from queue_scheduler.offline.load import load_engine, read_dump
from shared_api.debug_api.server import MAX_BODY_BYTES
from shared_api.version import VERSION

EXIT_FAILED: Final = 1


class Shown(NamedTuple):
    """An answer: as the debug API gives it, and as lines."""

    answer: BaseModel | list[BaseModel]
    lines: Iterable[str]


def run(got: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the command that was asked for; return its exit code."""
    try:
        if got.command == "dump":
            _take(got, err)
        else:
            _answer(got, out, err)
    except (DumpError, AnswerError) as error:
        err.write(f"koord-queue {got.command}: error: {text.printable(str(error))}\n")
        return EXIT_FAILED
    except BrokenPipeError:
        # The reader has seen enough; what is left in the stream is dropped at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return 0


# --- take ---------------------------------------------------------------------------------------


def _take(got: argparse.Namespace, err: TextIO) -> None:
    path: Path = got.output_file
    if got.from_dump is not None:
        dump = read_dump(got.from_dump)
    else:
        dump = decode_dump(fetch_dump(got.server, got.token_file, got.ca_file), VERSION)
    if got.anonymize:
        dump = anonymize(dump, got.key)
    data = encode_dump(dump, compress=path.suffix == ".gz")
    if path == STDOUT:
        sys.stdout.buffer.write(data)
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise DumpError(f"{path}: {error.strerror or error}") from error
    names = "without names" if dump.anonymized else "WITH names"
    err.write(f"{path}: {len(dump.units)} units, {len(dump.queues)} queues, {names}\n")


# --- ask ----------------------------------------------------------------------------------------


def _answer(got: argparse.Namespace, out: TextIO, err: TextIO) -> None:
    loaded = load_engine(read_dump(got.from_dump))
    err.writelines(
        f"koord-queue {got.command}: {note}: answers may differ from the cluster's\n"
        for note in map(text.printable, loaded.notes)
    )
    shown = _QUESTIONS[got.command](OfflineAnswers(loaded), got)
    if got.output == "json":
        out.write(to_json(shown.answer).decode() + "\n")
    else:
        out.writelines(f"{text.printable(line)}\n" for line in shown.lines)


def _explain(answers: OfflineAnswers, got: argparse.Namespace) -> Shown:
    view = answers.explain(got.unit, with_changes=got.changes)
    return Shown(view, text.tell_explanation(view))


def _forecast(answers: OfflineAnswers, got: argparse.Namespace) -> Shown:
    view = answers.forecast(got.unit)
    return Shown(view, text.tell_forecast(view))


def _try(answers: OfflineAnswers, got: argparse.Namespace) -> Shown:
    manifest = _read(got.filename)
    view = answers.submit(
        manifest,
        is_json=got.filename.suffix == ".json",
        namespace=got.namespace,
        with_changes=got.changes,
    )
    return Shown(view, text.tell_try(view))


def _what_if(answers: OfflineAnswers, got: argparse.Namespace) -> Shown:
    view = answers.what_if(_read(got.edits), got.horizon, got.seed)
    return Shown(view, text.tell_what_if(view))


def _units(answers: OfflineAnswers, _got: argparse.Namespace) -> Shown:
    units = list(answers.units())
    return Shown([*units], text.tell_units(units))


def _queues(answers: OfflineAnswers, _got: argparse.Namespace) -> Shown:
    queues = list(answers.queues())
    return Shown([*queues], text.tell_queues(queues))


_QUESTIONS: Final[dict[str, Callable[[OfflineAnswers, Any], Shown]]] = {
    "explain": _explain,
    "forecast": _forecast,
    "try": _try,
    "what-if": _what_if,
    "units": _units,
    "queues": _queues,
}


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BODY_BYTES + 1)
    except OSError as error:
        raise AnswerError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_BODY_BYTES:
        raise AnswerError(f"{path}: it has more than {MAX_BODY_BYTES} bytes")
    return data
