"""Who used how much of the quotas over a time: sums of use, added up by what is asked for.

Rows are of namespaces that the reader may read. What is left out is summed up by quota, without
names, if it is of enough namespaces in every hour: else the difference of two reports would be what
one or two of them used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Final, NamedTuple

from queue_insight.record.samples import NamespaceSets, quantile
from queue_insight.record.use_sums import (
    QuotaUse,
    UseBlock,
    UseKey,
    UseRow,
    add_amounts,
    add_quota_use,
)
from queue_scheduler.debug_api.hiding import may_sum
from queue_scheduler.tenants.hours import in_hours
from shared_api.debug_api.views import View
from shared_api.resource_list import Amounts
from shared_api.timestamps import rfc3339

FIELDS: Final = UseKey._fields
"""What reports may be added up by."""

QUOTAS: Final = ("quota",)
"""What a report is added up by whose rows are quotas."""

DIGITS: Final = 3
"""Digits of Jain's index after the point."""

Names = tuple[str, ...]
"""The values of the fields that a report is added up by."""

OTHER_ROWS: Final[Names] = ()
"""Names that no row has: in place of those of all rows but some."""

PLENTY: Final = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that are seldom what everybody waits for; devices come before them."""

Readable = AbstractSet[str] | None
"""The namespaces whose units a reader may read; None: all."""


class WaitsView(View):
    """How long units had waited that were admitted, in seconds; null: none were."""

    admitted: int
    wait_p50: float | None
    wait_p90: float | None


class ReportRow(WaitsView):
    """The use of one row.

    `names` are by the fields that were asked for. `used` is cores, GiB or pieces times hours, by
    resource. `lost` is what evicted runs had used until then. `borrowed` and `lent` are there if
    rows are quotas: what was used above `min`, and what was not used of it while a sibling
    borrowed, by the quota and all below it. `budgetLeft` is what new units may use now of its
    budgets, by resource or `amount`; of several the least, negative if a debt; for readers of all
    namespaces. They are null otherwise, and if the reader may not see them.
    """

    names: dict[str, str]
    used: dict[str, str]
    evictions: int
    lost: dict[str, str]
    borrowed: dict[str, str] | None
    lent: dict[str, str] | None
    budget_left: dict[str, str] | None = None


def with_budgets(rows: list[ReportRow], left: Mapping[str, dict[str, str]]) -> list[ReportRow]:
    """Return rows that are quotas with what is left of their budgets.

    It is for readers who may read all namespaces. A budget counts all use of the present period,
    whatever the time of the report: the time could be one in which nobody else used the quota.

    Args:
        rows: The rows.
        left: By quota (`budgets_left`).
    """
    return [
        row.model_copy(update={"budget_left": left.get(row.names["quota"], {})}) for row in rows
    ]


class OtherUse(View):
    """The use of a quota by namespaces that the reader may not read; null: they are too few."""

    quota: str
    used: dict[str, str] | None


class JainView(View):
    """How evenly the rows of a quota used each resource, by Jain's index: 1 is evenly.

    `quota` is "" if all rows are compared. `index` is null if rows are left out.
    """

    quota: str
    rows: int
    index: dict[str, float] | None


class ReportView(View):
    """Who used how much over a time.

    `source` is `record`, or `ledger` where no hours are recorded: then `note` says so, and what to
    do about it. `fromTime` is null if it is not known since when. What was used before
    `completeFrom` may be incomplete; of the time that is asked for, `missingSeconds` were not
    counted.
    """

    leader: bool
    source: str
    note: str
    from_time: str | None
    to_time: str
    complete_from: str | None
    missing_seconds: int
    by: list[str]
    total: int
    offset: int
    limit: int
    items: list[ReportRow]
    others: list[OtherUse]
    jain: list[JainView]


class ReportHead(NamedTuple):
    """What a report says of itself; the fields are those of `ReportView`."""

    leader: bool
    source: str
    note: str
    start: int | None
    end: int
    complete_from: int | None
    missing_seconds: int = 0


_NO_USE: Final = UseRow(UseKey("", "", "", "", "", ""))


class ReportSums:
    """Adds up blocks of use.

    Attributes:
        by: The fields that it is added up by.
        rows: The sums of rows that may be read.
        readable: The namespaces that the reader may read; None: all.

    Args:
        by: Fields of a `UseKey`.
        readable: The namespaces that the reader may read.
        has_others: Whether there are sums of others, and of quotas with them: not in a report of
            one namespace.
    """

    def __init__(self, by: tuple[str, ...], readable: Readable, *, has_others: bool = True) -> None:
        self.rows: dict[Names, UseRow] = {}
        self.readable = readable
        self.by = by
        self._has_others = has_others
        self._at = tuple(FIELDS.index(field) for field in by)
        self._hidden: dict[str, Amounts | None] = {}
        self._quotas: dict[str, QuotaUse] = {}

    def add(self, block: UseBlock, *, is_over: bool) -> None:
        """Add a block.

        Args:
            block: Use in some time.
            is_over: Whether the hour is over. In one that is not, what the reader may not read is
                left out: soon after, the difference would be that of a minute.
        """
        readable, rows, names_of = self.readable, self.rows, self.names_of
        hidden: dict[str, Amounts] = {}
        for row in block.rows:
            key = row.key
            if readable is not None and key.namespace not in readable:
                add_amounts(hidden.setdefault(key.quota, {}), row.used)
                continue
            names = names_of(key)
            known = rows.get(names)
            if known is None:
                known = rows[names] = UseRow(key, {}, {}, 0, {})
            _add_row(known, row)
        for quota, amounts in hidden.items() if self._has_others else ():
            self._hide(quota, amounts if is_over else {}, block)
        for quota, use in block.quotas.items():
            self._quotas[quota] = add_quota_use(self._quotas.get(quota), use)

    def names_of(self, key: UseKey) -> Names:
        """Return the names of the row that a key belongs to."""
        return tuple([key[at] for at in self._at])

    def _hide(self, quota: str, amounts: Amounts, block: UseBlock) -> None:
        known = self._hidden.setdefault(quota, {})
        if known is None or not all(map(self._may_sum, block.hours.get(quota, ()))):
            self._hidden[quota] = None
        else:
            add_amounts(known, amounts)

    def _may_sum(self, namespaces: Iterable[str]) -> bool:
        readable = self.readable
        return readable is None or may_sum(each for each in namespaces if each not in readable)

    # --- views --------------------------------------------------------------------------------

    def view(self, head: ReportHead, offset: int, limit: int) -> ReportView:
        """Return a page of the rows, by name."""
        ordered = self.names()
        return ReportView(
            leader=head.leader,
            source=head.source,
            note=head.note,
            from_time=None if head.start is None else _time(head.start),
            to_time=_time(head.end),
            complete_from=None if head.complete_from is None else _time(head.complete_from),
            missing_seconds=head.missing_seconds,
            by=list(self.by),
            total=len(ordered),
            offset=offset,
            limit=limit,
            items=[self.view_row(names) for names in ordered[offset : offset + limit]],
            others=[
                OtherUse(quota=quota, used=None if used is None else in_hours(used))
                for quota, used in sorted(self._hidden.items())
            ],
            jain=self._view_jain(),
        )

    def names(self) -> list[Names]:
        """Return the names of all rows, sorted; a quota that only lends has one as well."""
        found = set(self.rows)
        if self.by == QUOTAS:
            found.update(
                (name,) for name, use in self._quotas.items() if self._may_see(use.namespaces)
            )
        return sorted(found)

    def view_row(self, names: Names) -> ReportRow:
        """Return one row."""
        row, quota = self.rows.get(names, _NO_USE), None
        if self.by == QUOTAS:
            quota = self._shown_quota(names[0])
        return ReportRow(
            names=dict(zip(self.by, names, strict=True)),
            used=in_hours(row.used),
            admitted=sum(row.waits.values()),
            wait_p50=quantile(row.waits, 0.5),
            wait_p90=quantile(row.waits, 0.9),
            evictions=row.evictions,
            lost=in_hours(row.lost),
            borrowed=None if quota is None else in_hours(quota.borrowed),
            lent=None if quota is None else in_hours(quota.lent),
        )

    def _shown_quota(self, name: str) -> QuotaUse | None:
        use = self._quotas.get(name, QuotaUse())
        return use if self._may_see(use.namespaces) else None

    def _may_see(self, sets: NamespaceSets | None) -> bool:
        """Return whether no sum over these sets would tell about one or two hidden namespaces."""
        if self.readable is None:
            return True
        return self._has_others and sets is not None and all(map(self._may_sum, sets))

    def _view_jain(self) -> list[JainView]:
        is_by_quota = "quota" in self.by and len(self.by) > 1
        groups: dict[str, list[Amounts]] = {}
        for row in self.rows.values():
            groups.setdefault(row.key.quota if is_by_quota else "", []).append(row.used)
        hidden = self._hidden if is_by_quota else {"": None} if self._hidden else {}
        return [
            JainView(
                quota=quota,
                rows=len(uses),
                index=None if quota in hidden else jain_indexes(uses),
            )
            for quota, uses in sorted(groups.items())
        ]


def jain_indexes(uses: list[Amounts]) -> dict[str, float]:
    """Return Jain's index of each resource that is used: 1 if all use it evenly, 1/n if one does.

    Args:
        uses: What each has used; all of them count, also those that have used nothing.
    """
    sums, squares = Counter[str](), Counter[str]()
    for used in uses:
        for name, amount in used.items():
            sums[name] += amount
            squares[name] += amount * amount
    return {
        name: round(sums[name] ** 2 / (len(uses) * squares[name]), DIGITS)
        for name in sorted(sums)
        if squares[name]
    }


def _add_row(known: UseRow, more: UseRow) -> None:
    add_amounts(known.used, more.used)
    waits = known.waits
    for each, count in more.waits.items():
        waits[each] = waits.get(each, 0) + count
    if more.evictions:
        known.evictions += more.evictions
    if more.lost:
        add_amounts(known.lost, more.lost)


def largest_rows(rows: Mapping[Names, UseRow], resource: str, most: int) -> list[Names]:
    """Return the names of the rows that used most of a resource, the largest first."""
    used = [(-row.used.get(resource, 0), names) for names, row in rows.items()]
    return [names for _, names in sorted(used)[:most]]


def resources_of(rows: Iterable[UseRow]) -> list[str]:
    """Return the resources that were used, those that are mostly scarce first."""
    found = {name for row in rows for name in row.used}
    ranks = {name: rank for rank, name in enumerate(PLENTY, 1)}
    return sorted(found, key=lambda name: (ranks.get(name, 0), name))


def _time(second: int) -> str:
    return rfc3339(datetime.fromtimestamp(second, UTC))
