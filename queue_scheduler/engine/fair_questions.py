"""Questions about queues with the policy Fair: who comes before whom, and by how much. Pure."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import QueueUnitInfo, unit_key
from queue_scheduler.queueing.fair_settings import levels_of
from queue_scheduler.queueing.scheduling_queue import SchedulingQueue

MOST_SHOWN: Final = 1000
"""Times a share; whoever is alone at first may have any number."""


def find_account_ahead(
    engine: Engine, queue: SchedulingQueue, info: QueueUnitInfo
) -> Refusal | None:
    """Return which account's unit is first in the place of a pending one, and what both have used.

    None if the first unit is of the same account, or of a higher priority where that comes first.
    The names of accounts are not in it: whoever asks may not be allowed to read them.
    """
    use = engine.usage.fair.of_queue(queue.name)
    first = next(queue.pending.in_order(), None)
    if use is None or first is None or unit_key(first) == info.key:
        return None
    record = engine.record(unit_key(first))
    assert record is not None, f"{unit_key(first)} is pending, and unknown"
    ahead = record.info
    assert ahead is not None, f"{unit_key(first)} is pending without a demand"
    (own_priority, own), (priority, other) = info.order_key[0], ahead.order_key[0]
    if own_priority != priority or own == other:
        return None
    # Of a tree of accounts, the level at which they differ decides.
    levels = zip(levels_of(own), levels_of(other), strict=True)
    one, two = next(pair for pair in levels if pair[0] != pair[1])
    second = engine.usage.fair.second
    level = use.settings.levels[len(one) - 1]
    mine, its = (use.share_used(path, second) for path in (one, two))
    # Ranks are renewed at charges, and each minute: until then the order may be the former one.
    late = "; the order follows within a minute" if mine < its else ""
    return Refusal(
        reason=Reason.BEHIND_ACCOUNT,
        quota=info.quota,
        other=ahead.key,
        detail=(
            f"its {level} has used {_times(mine)} times the share, the first {level} {_times(its)}"
            f" times{late}"
        ),
    )


def _times(share: Fraction) -> str:
    return f">{MOST_SHOWN}" if share > MOST_SHOWN else f"{float(share):.2f}"
