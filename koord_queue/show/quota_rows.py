"""Quotas as rows of a table: one for each quota and resource. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from koord_queue.answers.quota_trees import walk
from koord_queue.answers.quotas import Quota
from koord_queue.show.bars import Letters, bar, bar_width, branches, percent
from shared_api.quantity import QuantityError, amount, format_amount

NUMBERS: Final = ("USED", "CHARGED", "MIN", "MAX", "RUNTIME", "BORROWED")
COLUMNS: Final = ("QUOTA", "RESOURCE", *NUMBERS)
"""The columns in a pipe; a terminal has a bar and percentages before the numbers."""
FULL: Final = 0.9
"""The share from which on a bar is a warning: the next job may not fit."""

_GAP: Final = 2
"""Columns between those of a table on a terminal."""
_LEAST_NAME: Final = 16
"""Columns that a name keeps before columns of numbers are left out."""
_LEFT_OUT: Final = ("RUNTIME", "CHARGED", "BORROWED", "MIN")
"""Columns that a narrow terminal does without."""
_BLANK: Final = " "
"""A cell that stays empty: the quota is named a line above."""
_FIRST: Final = ("cpu", "memory")
"""Resources that come first; the others by name."""


class Use(NamedTuple):
    """One resource of one quota; amounts are quantities, "" where there is none.

    Attributes:
        path: The names from the root, with slashes.
        quota: Its name, as jobs name it.
        name: Its name below its parent.
        depth: 0 for a root.
        resource: The resource.
        share: `used` of `max`; None without a max.
        problems: What is wrong with the quota.
    """

    path: str
    quota: str
    name: str
    depth: int
    resource: str
    used: str
    charged: str
    min: str
    max: str
    runtime: str
    borrowed: str
    share: float | None
    problems: tuple[str, ...]

    @property
    def numbers(self) -> list[str]:
        """The cells of `NUMBERS`."""
        return [self.used, self.charged, self.min, self.max, self.runtime, self.borrowed]


def uses_of(quotas: Iterable[Quota], resource: str | None = None) -> Iterator[Use]:
    """Yield the resources of all quotas, each quota before its children.

    Args:
        quotas: The roots.
        resource: Only this one; None: all that a quota names or that is used of it.
    """
    for quota, above in walk(quotas):
        for name in _resources(quota):
            if resource in {None, name}:
                yield _use(quota, above, name)


def _resources(quota: Quota) -> list[str]:
    known = {*quota.max, *quota.min, *quota.used, *(quota.charged or {})}
    return sorted(known, key=lambda each: (each not in _FIRST, each))


def _use(quota: Quota, above: tuple[str, ...], resource: str) -> Use:
    # A missing amount of what is counted is zero; of a limit, there is none.
    used = quota.used.get(resource, "0")
    charged = "" if quota.charged is None else quota.charged.get(resource, "0")
    return Use(
        path=path_of(quota.name, above),
        quota=quota.name,
        name=quota.name.removeprefix(f"{above[-1]}/") if above else quota.name,
        depth=len(above),
        resource=resource,
        used=used,
        charged=charged,
        min=quota.min.get(resource, ""),
        max=quota.max.get(resource, ""),
        runtime=quota.runtime.get(resource, ""),
        borrowed=_borrowed(quota, resource, used),
        share=share_of(resource, used, quota.max.get(resource)),
        problems=quota.problems,
    )


def path_of(name: str, above: tuple[str, ...]) -> str:
    """Return the names from the root; a node of an ElasticQuotaTree has them in its own name."""
    if above and name.startswith(f"{above[-1]}/"):
        return name
    return "/".join((*above, name))


def share_of(resource: str, used: str, limit: str | None) -> float | None:
    """Return which share of a limit is used; None without a limit."""
    most = _amount(resource, limit)
    taken = _amount(resource, used)
    if most is None or taken is None:
        return None
    if most == 0:
        return 1.0 if taken else 0.0
    return taken / most


def _borrowed(quota: Quota, resource: str, used: str) -> str:
    """Return what is used above the guarantee; "" where that is unknown, or nothing is lent."""
    is_resource_quota = bool(quota.namespace) and quota.name.startswith(f"{quota.namespace}/")
    if quota.scaled_min is None or is_resource_quota:
        return ""
    taken = _amount(resource, used)
    guaranteed = _amount(resource, quota.scaled_min.get(resource, "0"))
    if taken is None or guaranteed is None:
        return ""
    return format_amount(resource, max(taken - guaranteed, 0))


def _amount(resource: str, quantity: str | None) -> int | None:
    if quantity is None:
        return None
    try:
        return amount(resource, quantity)
    except QuantityError:
        return None


def plain_rows(uses: Iterable[Use]) -> list[list[str]]:
    """Return the rows of a pipe."""
    return [[each.path, each.resource, *each.numbers] for each in uses]


def tree_table(
    uses: Sequence[Use], width: int, letters: Letters
) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of a terminal: a tree with bars, as wide as fits.

    Args:
        uses: Each quota before its children.
        width: The width of the terminal, in columns.
        letters: What trees and bars are drawn with.
    """
    names = _tree_names(uses, letters)
    shares = ["" if each.share is None else percent(each.share) for each in uses]
    rows = [
        [name, each.resource, share, *each.numbers]
        for name, each, share in zip(names, uses, shares, strict=True)
    ]
    columns, rows = fit(["QUOTA", "RESOURCE", "USE", *NUMBERS], rows, width, _LEFT_OUT)
    bars = bar_width(width - _taken(columns, rows) - _GAP)
    if bars == 0:
        return columns, rows
    for row, each in zip(rows, uses, strict=True):
        row.insert(2, "" if each.share is None else bar(each.share, bars, letters))
    return [*columns[:2], "", *columns[2:]], rows


def fit(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, left_out: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return a table that fits a terminal: a number that is cut would be another number.

    Args:
        columns: The first is a name, which is cut if all else fits.
        rows: Its cells.
        width: The width of the terminal, in columns.
        left_out: Columns that are left out where it is still too wide, the first one first.
    """
    headings, shown, room = list(columns), [list(row) for row in rows], width
    longest = _width_of(columns[0], *(row[0] for row in rows))
    for count in range(len(left_out) + 1):
        kept = [index for index, name in enumerate(columns) if name not in left_out[:count]]
        shown = [[row[index] for index in kept] for row in rows]
        headings = [columns[index] for index in kept]
        room = width - (_taken(headings, shown) - longest)
        if room >= min(longest, _LEAST_NAME) or count == len(left_out):
            break
    for row in shown:
        row[0] = _cut(row[0], max(room, 1))
    return headings, shown


def _cut(text: str, width: int) -> str:
    from rich.cells import set_cell_size  # noqa: PLC0415 - only for terminals

    fits = _width_of(text) <= width
    return text if fits else set_cell_size(text, width - 1) + "\N{HORIZONTAL ELLIPSIS}"


def _width_of(*texts: str) -> int:
    from rich.cells import cell_len  # noqa: PLC0415 - only for terminals

    return max(map(cell_len, texts))


def _tree_names(uses: Sequence[Use], letters: Letters) -> list[str]:
    """Return the first cells: the name with its branch, once for all resources of a quota."""
    firsts = [index for index, each in enumerate(uses) if not _continues(uses, index)]
    drawn = branches([uses[index].depth for index in firsts], letters)
    names = {index: branch + uses[index].name for index, branch in zip(firsts, drawn, strict=True)}
    return [names.get(index, _BLANK) for index in range(len(uses))]


def _continues(uses: Sequence[Use], index: int) -> bool:
    return index > 0 and uses[index].path == uses[index - 1].path


def _taken(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the columns of a terminal that a table takes without its bars."""
    widths = [_width_of(*column) for column in zip(columns, *rows, strict=True)]
    return sum(widths) + _GAP * len(widths)


def styles_of(uses: Iterable[Use]) -> dict[str, str]:
    """Return the style of the percents that are a warning, by their text."""
    shares = [each.share for each in uses if each.share is not None and each.share >= FULL]
    return {percent(share): "bad" if share > 1 else "warn" for share in shares}


def documents_of(uses: Iterable[Use]) -> list[dict[str, Any]]:
    """Return the uses as values for JSON and YAML; what is not known is left out."""
    found = []
    for each in uses:
        known = each._asdict() | {"problems": list(each.problems)}
        del known["depth"], known["name"]
        found.append({key: value for key, value in known.items() if value not in ("", None, [])})
    return found


class TopRow(NamedTuple):
    """A quota by the resource of which it uses the largest share.

    Attributes:
        use: That resource.
        pending: Units that wait for it; None: not known.
        admitted: Units that hold of it; None: not known.
    """

    use: Use
    pending: int | None
    admitted: int | None


def top_quotas(
    uses: Iterable[Use], counts: dict[str, tuple[int, int]], resource: str | None = None
) -> list[TopRow]:
    """Return quotas, the one that uses the largest share of its max first.

    Args:
        uses: The uses of all quotas.
        counts: Pending and admitted units of a quota, by its name.
        resource: Compare by this one; None: by the resource of the largest share.
    """
    dominant: dict[str, Use] = {}
    for each in uses:
        if resource not in {None, each.resource} or each.share is None:
            continue
        best = dominant.get(each.path)
        if best is None or (best.share or 0.0) < each.share:
            dominant[each.path] = each
    rows = [TopRow(use, *counts.get(use.quota, (None, None))) for use in dominant.values()]
    return sorted(rows, key=lambda row: (-(row.use.share or 0.0), row.use.path))
