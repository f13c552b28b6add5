"""Who has used how much: pages of `/debug/accounts`, added up as they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from koord_queue.answers.decoding import Answer

Hours = dict[str, Decimal]
"""Cores, GiB or pieces times hours, by resource."""

FIELDS: Final = ("quota", "queue", "namespace", "group", "user")
"""What accounts may be added up by."""

OTHERS: Final = "(not readable)"
"""In place of the names of accounts that may not be read."""


class Use(Answer, frozen=True, kw_only=True):
    """Use in all, in the present and in the last period."""

    used: Hours = {}
    this_period: Hours = {}
    last_period: Hours = {}


class Account(Use, frozen=True, kw_only=True):
    """One account."""

    quota: str
    queue: str = ""
    namespace: str = ""
    group: str = ""
    user: str = ""


class Others(Answer, frozen=True, kw_only=True):
    """The accounts of a quota that may not be read; None: nor may their sum."""

    quota: str
    accounts: int
    use: Use | None = None


class AccountPage(Answer, frozen=True, kw_only=True):
    """A page of accounts; `others` are the same on all pages."""

    at: datetime
    complete_from: datetime | None = None
    this_period_from: datetime | None = None
    last_period_from: datetime | None = None
    total: int = 0
    items: tuple[Account, ...] = ()
    others: tuple[Others, ...] = ()


class Span(NamedTuple):
    """A time for which use is known.

    Attributes:
        start: When it begins; None: with the first use that is known.
        end: When it ends.
        parts: By `Use.used` and so on, how often it is added.
    """

    start: datetime | None
    end: datetime
    parts: tuple[int, int, int]

    def of(self, use: Use) -> Hours:
        """Return what was used in it."""
        found: Hours = {}
        kinds = (use.used, use.this_period, use.last_period)
        for times, hours in zip(self.parts, kinds, strict=True):
            if times:
                _add(found, {resource: times * amount for resource, amount in hours.items()})
        return {resource: amount for resource, amount in found.items() if amount}


def spans_of(page: AccountPage) -> list[Span]:
    """Return the times for which use is known; the first is that of all use."""
    this, last = page.this_period_from, page.last_period_from
    found = [Span(None, page.at, (1, 0, 0))]
    if this is not None:
        found += [Span(this, page.at, (0, 1, 0)), Span(None, this, (1, -1, 0))]
    if this is not None and last is not None:
        found += [
            Span(last, this, (0, 0, 1)),
            Span(last, page.at, (0, 1, 1)),
            Span(None, last, (1, -1, -1)),
        ]
    return found


class Row(NamedTuple):
    """Accounts that are added up.

    Attributes:
        names: By the fields that were asked for.
        used: What they have used; None: that may not be read.
    """

    names: tuple[str, ...]
    used: Hours | None


def add_up(pages: Sequence[AccountPage], span: Span, by: Sequence[str]) -> list[Row]:
    """Return the accounts of all pages, added up by these fields, and the others by quota."""
    sums: dict[tuple[str, ...], Hours] = {}
    for account in (each for page in pages for each in page.items):
        names = tuple(getattr(account, field) for field in by)
        _add(sums.setdefault(names, {}), span.of(account))
    rows = [Row(names, used) for names, used in sorted(sums.items()) if used]
    return [*rows, *_rows_of(pages[0].others, span, by)]


def _rows_of(others: Iterable[Others], span: Span, by: Sequence[str]) -> list[Row]:
    sums: dict[tuple[str, ...], Hours | None] = {}
    for each in others:
        names = tuple(each.quota if field == "quota" else OTHERS for field in by)
        known = sums.setdefault(names, {})
        if each.use is None or known is None:
            sums[names] = None
        else:
            _add(known, span.of(each.use))
    return [Row(names, used) for names, used in sorted(sums.items())]


def _add(total: Hours, more: Hours) -> None:
    for resource, amount in more.items():
        total[resource] = total.get(resource, Decimal(0)) + amount
