"""What was decided, as `/debug/log` answers it."""

from __future__ import annotations

import msgspec


class LogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One decision.

    Attributes:
        time: RFC 3339.
        kind: `Admitted`, `Grew`, `Evicts` or `Refused`.
        unit: `namespace/name`; "" of another namespace that may not be read.
        queue: Its queue.
        quota: Its quota, or the one whose limit it is.
        reason: Why; "" for an admission.
        message: The same in words, with numbers.
        victims: Units that are evicted for it.
        others: Victims that are not named, since their namespaces may not be read.
    """

    time: str = ""
    kind: str = ""
    unit: str = ""
    queue: str = ""
    quota: str = ""
    reason: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()
    others: int = 0


class LogPage(msgspec.Struct, frozen=True):
    """A page, the newest first; `cursor` asks for the next one, None: there is none."""

    items: tuple[LogEntry, ...] = ()
    cursor: int | None = None


def read_log_page(body: bytes) -> LogPage:
    """Return a page of `/debug/log`."""
    return msgspec.json.decode(body, type=LogPage)
