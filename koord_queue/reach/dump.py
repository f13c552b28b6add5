"""A dump, asked as the cluster is: a `Source` of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from koord_queue.answers.decoding import decode
from koord_queue.answers.queues import Queue
from koord_queue.answers.units import Unit
from koord_queue.errors import CommandError
from koord_queue.reach.errors import NotServed
from koord_queue.reach.named import Owned, pick_unit
from shared_api.server_packages import INSTALL

if TYPE_CHECKING:
    from koord_queue.reach.questions import AnswerT, Question
    from queue_insight.offline.answers import OfflineAnswers


class DumpSource:
    """A `Source` that answers at the time of a dump."""

    def __init__(self, answers: OfflineAnswers) -> None:
        self._answers = answers

    def note_differences(self, note: Callable[[str], None]) -> None:
        """Report what may make answers differ from those of the cluster."""
        for each in self._answers.notes:
            note(f"{each}: answers may differ from the cluster's")

    def now(self) -> datetime:
        """Return the time of the dump."""
        return self._answers.now()

    def unit(self, named: str, namespace: str) -> tuple[str, str]:
        """Return namespace and name of a unit.

        Args:
            named: As against a cluster.
            namespace: Where it is, if it is not given.

        Raises:
            CommandError: The dump has none of that name, or several.
        """
        units = list(self._answers.jobs())

        def units_in(where: str) -> list[Owned]:
            return [
                Owned(each.name, each.kind, each.api_version.rpartition("/")[0], each.job)
                for each in units
                if each.namespace == where
            ]

        return pick_unit(units_in, namespace, named)

    def units(self) -> list[Unit]:
        """Return all units, by name."""
        return decode(self._answers.units(), list[Unit])

    def queues(self) -> list[Queue]:
        """Return all queues, by name."""
        return decode(self._answers.queues(), list[Queue])

    def reservations(self) -> list[bytes]:
        """Return all reservations as JSON, by name."""
        return [bytes(raw) for raw in decode(self._answers.reservations(), list[msgspec.Raw])]

    def tree(self, what: Literal["units", "queues"]) -> Any:  # noqa: ANN401 - decoded JSON
        """Return the list of all units or queues, with all fields."""
        return decode(getattr(self._answers, what)(), object)

    def quota_objects(self) -> list[dict[str, Any]]:
        """Return the quotas' objects."""
        return self._answers.quota_objects()

    def policy_objects(self) -> list[dict[str, Any]]:
        """Return the QuotaPolicies."""
        return self._answers.policy_objects()

    def answer(self, question: Question[AnswerT]) -> AnswerT:
        """Return the answer at the time of the dump. See `Source`."""
        if question.dump is None:
            raise NotServed(f"a dump does not answer {question.name}")
        with _sentences():
            return question.dump(self._answers)


def open_dump(path: str) -> DumpSource:
    """Return the answers of a dump.

    Raises:
        CommandError: It cannot be read, or what the answers need is not installed.
    """
    try:
        from queue_insight.offline.answers import OfflineAnswers  # noqa: PLC0415 - a second
    except ImportError as error:
        missing = f"--from-dump needs the packages of the server, and {error.name} is missing"
        raise CommandError(missing, f"Install them: {INSTALL}") from error
    from queue_insight.offline.load import load_engine, read_dump  # noqa: PLC0415 - the same

    with _sentences():
        return DumpSource(OfflineAnswers(load_engine(read_dump(Path(path)))))


@contextmanager
def _sentences() -> Iterator[None]:
    """Raise what goes wrong as a `CommandError`."""
    from queue_insight.offline.errors import (  # noqa: PLC0415 - the engine, only for a dump
        AnswerError,
        DumpError,
    )

    try:
        yield
    except (AnswerError, DumpError) as error:
        raise CommandError(str(error)) from error
