"""Finds labels and annotations of a job that have no effect, and what they were meant to be.

Kubernetes accepts any key. A job with a misspelled quota label is not queued, and an annotation
that belongs on another kind of object has no effect; neither is an error anywhere. So keys that
look as if they were meant for this project are reported, by three rules:

1. A key with this project's prefix that is not read on jobs.
2. Any other key within `MAX_EDITS` edits of one that is read on jobs, unless it is a known key.
3. A key that is read on jobs only as a label, and is given as an annotation, or the reverse.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from shared_api import well_known_labels as keys

MAX_EDITS: Final = 2
"""Letters that may be missing, added or replaced: with more it is another word, no misspelling."""

MAX_SUGGESTION_EDITS: Final = 6
"""The same for suggestions in place of an unknown key with this project's prefix."""

REMEMBERED_KEYS: Final = 4096
"""Keys whose result is cached: jobs are made from templates, so many jobs share few keys."""

_BOTH: Final = (keys.QUEUE_NAME,)
_LABELS: Final = (
    keys.QUOTA_NAME,
    *keys.QUOTA_NAME_LEGACY,
    keys.PREEMPTIBLE,
    keys.TREE_PREEMPTIBLE,
    keys.USER,
    keys.GROUP,
    keys.KUEUE_QUEUE_NAME,
    *_BOTH,
)
_ANNOTATIONS: Final = (
    keys.SUSPEND,
    keys.PRIORITY,
    keys.ACTIVE,
    keys.MAX_EXEC_TIME,
    keys.RUNNING_TIMEOUT,
    keys.PARTIAL_RUNNING_TIMEOUT,
    keys.POD_CREATION_TIMEOUT,
    keys.BACKOFF_TIMEOUT,
    keys.BACKOFF_LIMIT,
    keys.MIN_PARALLELISM,
    keys.KUEUE_MIN_PARALLELISM,
    keys.MIN_RESOURCES,
    keys.BLOCK_FOR_TEST,
    keys.CHECKPOINTED_AT,
    keys.DELETE_LOST_PODS_AFTER,
    keys.GATED_BY,
    keys.KUEUE_GATED_BY,
    keys.SUBMITTED_BY,
    *_BOTH,
)
_WRITTEN: Final = (
    keys.RELEASED_AT,
    keys.TOUCHED_AT,
    keys.POD_SET_UPDATES,
    keys.RELEASED_PARALLELISM,
    keys.MARKED_UID,
    keys.GRANTED_COUNT,
    keys.RELATED_QUEUE_UNIT,
    keys.RELATED_POD_SET,
    keys.STAMPED_QUOTA,
    *(f"{keys.PREFIX}{name}" for name in ("related-apiversion-kind", "related-object")),
    *(f"{keys.PREFIX}job-{name}" for name in ("has-enqueued", "enqueue-timestamp")),
    f"{keys.PREFIX}job-dequeue-timestamp",
)
"""Annotations that the controllers write on jobs, or on objects that become jobs; the last five are
upstream's. A copy of a job has them as well."""


def _spelled(*names: str) -> frozenset[str]:
    return frozenset(spelling for name in names for spelling in keys.spellings(name))


JOB_LABELS: Final = _spelled(*_LABELS)
JOB_ANNOTATIONS: Final = _spelled(*_ANNOTATIONS)
"""The keys that a user may set on a job, with their older spellings."""

_OURS: Final = (keys.PREFIX, keys.LEGACY_PREFIX)
_KNOWN: Final = _spelled(*keys.ALL_KEYS) | {
    # Koordinator's other keys that are within two letters of one that is read here.
    keys.QUOTA_PREFIX + "max",
    keys.QUOTA_PREFIX + "profile",
}


def explain_unread_keys(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[str]:
    """Return a sentence for each label and annotation of a job that mistakenly has no effect.

    They are in the order of the keys; for nearly every job there are none.
    """
    found = [
        *_unread(labels, JOB_LABELS, JOB_ANNOTATIONS, "Label", "an annotation"),
        *_unread(annotations, JOB_ANNOTATIONS, JOB_LABELS, "Annotation", "a label"),
    ]
    return [sentence for _, sentence in sorted(found)]


def _unread(
    given: Mapping[str, str],
    read: frozenset[str],
    read_elsewhere: frozenset[str],
    word: str,
    elsewhere: str,
) -> Iterator[tuple[str, str]]:
    for key in given:
        if key in read or "/" not in key:
            continue
        if key in read_elsewhere:
            yield key, f"{word} {key} has no effect: on a job it is read as {elsewhere}."
        elif why := _why_unread(key):
            yield key, f"{word} {key} has no effect: {why}"


@lru_cache(REMEMBERED_KEYS)
def _why_unread(key: str) -> str:
    """Return why a key that is not read on jobs has no effect; "" if that is not a mistake."""
    if key in _spelled(*_WRITTEN):
        return ""
    if not key.startswith(_OURS):
        if key in _KNOWN:
            return ""
        nearest = _nearest(key, MAX_EDITS)
        return f"nothing reads it. Did you mean {nearest}?" if nearest else ""
    if key in _KNOWN:
        return "it is not read on jobs."
    nearest = _nearest(key, MAX_SUGGESTION_EDITS)
    return f"nothing reads it. Did you mean {nearest}?" if nearest else "nothing reads it."


def _nearest(key: str, most: int) -> str:
    """Return the key that is read on jobs and differs in the fewest letters, or "" above `most`.

    One that begins like it comes first: the rest was left out.
    """
    near = [
        (not name.startswith(key), edits, name)
        for name in (*_LABELS, *_ANNOTATIONS)
        if (edits := count_edits(key, name, most)) <= most
    ]
    return min(near)[2] if near else ""


def count_edits(one: str, other: str, most: int) -> int:
    """Return how many letters must be inserted, deleted or replaced; `most` + 1 if more.

    Two transposed letters are two edits (Levenshtein distance).
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        above, row[0] = row[0], i
        for j, wanted in enumerate(other, start=1):
            cost = min(above + (letter != wanted), row[j] + 1, row[j - 1] + 1)
            above, row[j] = row[j], cost
    return min(row[-1], most + 1)
