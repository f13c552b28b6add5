"""Who used how much over a time.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class ReportRow(Answer, frozen=True):
    """The use of one row.

    `names` are by the fields that were asked for. `used` is cores, GiB or pieces times hours, by
    resource. `lost` is what evicted runs had used until then. `borrowed` and `lent` are there if
    rows are quotas: what was used above `min`, and what was not used of it while a sibling
    borrowed, by the quota and all below it. `budgetLeft` is what new units may use now of its
    budgets, by resource or `amount`; of several the least, negative if a debt; for readers of all
    namespaces. They are null otherwise, and if the reader may not see them.
    """

    admitted: int = 0
    wait_p50: float | None = None
    wait_p90: float | None = None
    names: dict[str, str] = {}
    used: dict[str, str] = {}
    evictions: int = 0
    lost: dict[str, str] = {}
    borrowed: dict[str, str] | None = None
    lent: dict[str, str] | None = None
    budget_left: dict[str, str] | None = None


class OtherUse(Answer, frozen=True):
    """The use of a quota by namespaces that the reader may not read; null: they are too few."""

    quota: str = ""
    used: dict[str, str] | None = None


class Jain(Answer, frozen=True):
    """How evenly the rows of a quota used each resource, by Jain's index: 1 is evenly.

    `quota` is "" if all rows are compared. `index` is null if rows are left out.
    """

    quota: str = ""
    rows: int = 0
    index: dict[str, float] | None = None


class Report(Answer, frozen=True):
    """Who used how much over a time.

    `source` is `record`, or `ledger` where no hours are recorded: then `note` says so, and what to
    do about it. `fromTime` is null if it is not known since when. What was used before
    `completeFrom` may be incomplete; of the time that is asked for, `missingSeconds` were not
    counted.
    """

    leader: bool = False
    source: str = ""
    note: str = ""
    from_time: str | None = None
    to_time: str = ""
    complete_from: str | None = None
    missing_seconds: int = 0
    by: tuple[str, ...] = ()
    total: int = 0
    offset: int = 0
    limit: int = 0
    items: tuple[ReportRow, ...] = ()
    others: tuple[OtherUse, ...] = ()
    jain: tuple[Jain, ...] = ()
