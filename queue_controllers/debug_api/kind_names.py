"""Which kind of job a word means: `Job`, `jobs`, `jobs.batch`, `jobs.v1.batch`, or a key. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from queue_controllers.jobframework.generic_job import JobKind


def find_kinds(word: str, kinds: Iterable[JobKind]) -> list[JobKind]:
    """Return the kinds that a word names, in their order; case does not matter.

    Several are of one resource in different versions, or of several groups. A key names one
    extension, and takes precedence over other meanings.
    """
    word, known = word.lower(), list(kinds)
    keyed = [each for each in known if each.key.lower() == word]
    return keyed or [each for each in known if word in _names_of(each)]


def resource_name(kind: JobKind) -> str:
    """Return `kubectl`'s unambiguous name of the kind: `jobs.batch`, `pods`."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _names_of(kind: JobKind) -> set[str]:
    names = {kind.kind.lower(), kind.plural}
    if not kind.group:
        return names
    return {
        *names,
        *(f"{each}.{kind.group}" for each in names),
        *(f"{each}.{kind.version}.{kind.group}" for each in names),
    }
