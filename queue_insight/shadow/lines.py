"""The record of the shadow: what was seen in a cluster, one JSON object in each line.

Only the truth is in it, nothing that was decided: a report decides again. All times are seconds
since the epoch. A line about a job counts from the time that it states, which may be before the
time at which it was written.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from queue_insight.shadow.quota_mapping import QuotaMapping

FORMAT: Final = 1
"""The version of the lines; a reader refuses others."""


class _Line(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line.

    Attributes:
        at: When it was so.
    """

    at: float


class Header(_Line, frozen=True, kw_only=True, tag_field="type", tag="header"):
    """The program began to watch, for the first time or again.

    Attributes:
        format: The version of the lines.
        version: The program's version.
        configuration: The content of `--config`; None if it has none.
        places: Which quota jobs have that name none.
        kinds: The kinds of jobs that are followed.
    """

    format: int
    version: str
    configuration: dict[str, Any] | None = None
    places: QuotaMapping = QuotaMapping()
    kinds: tuple[str, ...] = ()


class ObjectSeen(_Line, frozen=True, kw_only=True, tag_field="type", tag="object"):
    """A quota, a policy of quotas, a queue or a node is new or has changed.

    Attributes:
        body: The object, with its kind, and only the fields that the engine reads.
    """

    body: dict[str, Any]


class ObjectGone(_Line, frozen=True, kw_only=True, tag_field="type", tag="object-gone"):
    """A quota, a policy of quotas, a queue or a node was deleted.

    Attributes:
        kind: Its kind.
        key: `namespace/name`, or the name.
    """

    kind: str
    key: str


class JobSeen(_Line, frozen=True, kw_only=True, tag_field="type", tag="job"):
    """A job is new, or has changed before it started.

    Attributes:
        uid: The job's uid; the other lines about it name it.
        job: `namespace/name`.
        kind: The kind of its extension, such as `job`.
        submitted: When it was created.
        kueue_queue: Which LocalQueue of Kueue it names; "": none.
        unit: The QueueUnit that the controllers would make of it.
    """

    uid: str
    job: str
    kind: str
    submitted: float
    kueue_queue: str = ""
    unit: dict[str, Any]


class JobStarted(_Line, frozen=True, kw_only=True, tag_field="type", tag="started"):
    """The first pod of a job got a node, or its status said that it runs."""

    uid: str


class JobStopped(_Line, frozen=True, kw_only=True, tag_field="type", tag="stopped"):
    """A job that had started was suspended, and has no pods any more."""

    uid: str


class JobEnded(_Line, frozen=True, kw_only=True, tag_field="type", tag="ended"):
    """A job has ended.

    Attributes:
        outcome: `succeeded`, `failed`, or `deleted`: it is gone, and had not ended before.
    """

    uid: str
    outcome: str


class Alive(_Line, frozen=True, kw_only=True, tag_field="type", tag="alive"):
    """The program still watches: the record is complete until then."""


Line = Header | ObjectSeen | ObjectGone | JobSeen | JobStarted | JobStopped | JobEnded | Alive

_DECODER: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


def encode_line(line: Line) -> bytes:
    """Return a line with its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(text: bytes) -> Line:
    """Return a line.

    Raises:
        msgspec.DecodeError: It is none.
    """
    return _DECODER.decode(text)
