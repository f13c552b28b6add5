"""The view over time: pending, admitted, waits and use of the whole, a queue or a quota."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from fastapi import Depends, Query

from queue_insight.page.sources import PageSources
from queue_insight.page.visitors import Visitor
from queue_insight.record.sample_tables import REACHES, TimedSample
from queue_insight.record.samples import (
    NOTHING,
    WHOLE,
    Sample,
    of_queue,
    of_quota,
    quantile,
)
from queue_scheduler.debug_api.hiding import may_sum
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_quota
from shared_api.debug_api.views import View
from shared_api.question_errors import Code, QuestionError
from shared_api.resource_list import Amounts

MAX_NAME: Final = 253
"""Characters of an object's name in Kubernetes."""
MILLI: Final = 1_000

Range = Literal["1h", "1d", "7d"]
Numbers = list[float | None]


class OverTimeQuery(NamedTuple):
    """What is asked about: a queue, a quota, or with neither name the whole; and how far back."""

    range: Range = "1h"
    queue: str = ""
    quota: str = ""

    @property
    def subject(self) -> str:
        """What its samples are kept by.

        Raises:
            QuestionError: INVALID_ARGUMENT: it names both a queue and a quota.
        """
        if self.queue and self.quota:
            raise QuestionError(Code.INVALID_ARGUMENT, "ask about a queue or a quota, not both")
        if self.queue:
            return of_queue(self.queue)
        return of_quota(self.quota) if self.quota else WHOLE


def _read_query(
    range: Annotated[Range, Query(description="how far back")] = "1h",  # noqa: A002 - its name in the query
    queue: Annotated[str, Query(max_length=MAX_NAME)] = "",
    quota: Annotated[str, Query(max_length=MAX_NAME)] = "",
) -> OverTimeQuery:
    return OverTimeQuery(range, queue, quota)


AskedOverTime = Annotated[OverTimeQuery, Depends(_read_query)]


class OverTime(View):
    """What there was over time: numbers in the order of `times`, each until the next.

    `times` are seconds since the epoch; the last number holds until `until`. `used`, `min` and
    `max` are by resource: cores, bytes, or pieces. `min` and `max` are those of a quota now. A
    number is null where nothing was recorded, and where the visitor may not see it (`sumsHidden`);
    waits also where nothing was admitted. `waitP50` and `waitP90` are seconds: those of the units
    admitted since the time before. `recorded`: a record is kept. `dashboards` is an address to link
    to; "": there is none.
    """

    times: list[int]
    until: int
    pending: Numbers
    admitted: Numbers
    wait_p50: Numbers
    wait_p90: Numbers
    used: dict[str, Numbers]
    min: dict[str, float]
    max: dict[str, float]
    sums_hidden: bool
    recorded: bool
    dashboards: str


class _Seen(NamedTuple):
    """What a visitor may see of a sample; None: not that."""

    pending: float | None = None
    admitted: float | None = None
    used: dict[str, int] | None = None
    waits: dict[int, int] | None = None


_GAP: Final = _Seen()


def show_over_time(
    sources: PageSources, query: OverTimeQuery, visitor: Visitor, *, is_recorded: bool
) -> OverTime:
    """Return what there was over time, as a visitor may see it.

    Raises:
        QuestionError: INVALID_ARGUMENT: the question is about a queue and a quota. NOT_FOUND: there
            is no such queue or quota, and there was none.
        NoStateError: There is no state, or the record cannot be read.
    """
    state, samples = sources.at(None), list[TimedSample]()
    now = sources.clock.now().timestamp()
    if is_recorded and sources.samples is not None:
        samples = sources.samples(query.subject, REACHES[query.range], now)
    known = state.shared.ask(_read_known, query)
    if not known.exists and all(each.sample == NOTHING for each in samples):
        what = f"queue {query.queue!r}" if query.queue else f"quota {query.quota!r}"
        raise QuestionError(Code.NOT_FOUND, f"{what} is unknown")
    points = list(_with_gaps(samples, _rule_for(visitor, is_of_quota=bool(query.quota))))
    seen = [each for _, each in points]
    return OverTime(
        times=[at for at, _ in points],
        until=int(now),
        pending=[each.pending for each in seen],
        admitted=[each.admitted for each in seen],
        wait_p50=_waits(seen, 0.5),
        wait_p90=_waits(seen, 0.9),
        used=_used(seen),
        min=_all_in_units(known.min),
        max=_all_in_units(known.max),
        sums_hidden=any(each is not _GAP and None in each for each in seen),
        recorded=is_recorded,
        dashboards=sources.dashboards,
    )


class _Known(msgspec.Struct, frozen=True):
    """Whether an engine knows what is asked about, and the limits of a quota."""

    exists: bool
    min: Amounts = {}
    max: Amounts = {}


def _read_known(engine: Engine, query: OverTimeQuery) -> _Known:
    if query.queue:
        return _Known(exists=engine.queues.find(query.queue) is not None)
    view = view_quota(engine.plugins, query.quota) if query.quota else None
    if view is None:
        return _Known(exists=not query.quota)
    return _Known(exists=True, min=view.scaled_min or view.min, max=view.max)


def _with_gaps(
    samples: Iterable[TimedSample], see: Callable[[Sample], _Seen]
) -> Iterator[tuple[int, _Seen]]:
    """Yield what is seen of samples, each with its time, and where one is missing nothing."""
    until: int | None = None
    for each in samples:
        if until is not None and until < each.begin:
            yield until, _GAP
        yield each.begin, see(each.sample)
        until = each.begin + each.seconds


def _rule_for(visitor: Visitor, *, is_of_quota: bool) -> Callable[[Sample], _Seen]:
    """Return what takes out of a sample what a visitor may not see.

    The numbers of units of a queue are shown to all; those of a quota are sums as its use is.
    """
    if visitor.reads_all:
        return lambda sample: _Seen(sample.pending, sample.admitted, sample.used, sample.waits)

    @cache  # the same namespaces in nearly all samples
    def may_see(names: tuple[str, ...]) -> bool:
        return may_sum(name for name in names if not visitor.may_read(name))

    def see(sample: Sample) -> _Seen:
        sets, names = sample.namespaces, sample.admitted_from
        sums = sets is not None and all(map(may_see, sets))
        counts = sums or not is_of_quota
        return _Seen(
            pending=sample.pending if counts else None,
            admitted=sample.admitted if counts else None,
            used=sample.used if sums else None,
            waits=sample.waits if names is not None and may_see(names) else None,
        )

    return see


def _waits(seen: Iterable[_Seen], share: float) -> Numbers:
    return [None if each.waits is None else quantile(each.waits, share) for each in seen]


def _used(seen: Sequence[_Seen]) -> dict[str, Numbers]:
    resources = sorted({resource for each in seen for resource in each.used or ()})
    return {
        resource: [
            None if each.used is None else _in_units(resource, each.used.get(resource, 0))
            for each in seen
        ]
        for resource in resources
    }


def _all_in_units(amounts: Mapping[str, int]) -> dict[str, float]:
    return {resource: _in_units(resource, each) for resource, each in amounts.items()}


def _in_units(resource: str, amount: int) -> float:
    """Return an amount in cores, bytes or pieces."""
    return amount / MILLI if resource == "cpu" else float(amount)
