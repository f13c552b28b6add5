"""Why a job has no unit: the controllers know, and what they say is passed on."""

from __future__ import annotations

from collections.abc import Callable

from koord_queue.answers.jobs import Job
from koord_queue.errors import CommandError
from koord_queue.reach.errors import Missing
from koord_queue.reach.named import UnitNotFound, may_be_namespace

AskJob = Callable[[str, str, str], Job]
"""Returns what the controllers know of a job: by namespace, kind and name."""


def is_pod(word: str) -> bool:
    """Return whether a word of kubectl means pods."""
    return word.lower() in {"pod", "pods", "po"}


def unit_or_why(ask: AskJob, error: UnitNotFound) -> str:
    """Return the unit that the controllers name for a job where none was found by its name.

    Args:
        ask: Asks the controllers.
        error: What was found instead.

    Raises:
        CommandError: It has no unit; the message says why, if that is known.
    """
    if not error.word or may_be_namespace(error.word):
        raise error  # which kind of job is meant is not known
    try:
        job = ask(error.namespace, error.word, error.name)
    except Missing as missing:
        raise _with(error, f", and {missing.message}") from missing
    except CommandError as unknown:
        raise _with(error, f"; whether it is managed is not known: {unknown.message}") from unknown
    if job.unit is not None:
        return job.unit.name
    raise CommandError(f"{job.kind.lower()}/{job.name} has no queue unit. {job.message}", _fix(job))


def _with(error: UnitNotFound, more: str) -> CommandError:
    """Return the error with what else is known; what it advises stays."""
    return CommandError(f"{error.message}{more}", error.next_step, error.exit_code)


def _fix(job: Job) -> str:
    return " ".join(_sentence(each.message) for each in job.problems)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."
