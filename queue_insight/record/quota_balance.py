"""What quotas borrow and lend at a moment, and who waits. Pure.

A quota borrows what is used above its `min`. If it may lend, it lends what it does not use of its
`min` while one of its siblings borrows of the same resource. Both are of a quota with all below it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from queue_insight.record.samples import Sample, amounts_of, of_quota
from queue_insight.record.use_meter import kind_of
from queue_insight.record.use_sums import QuotaUse, UseKey
from queue_scheduler.cache.unit_state import PENDING
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_questions import view_all_quotas
from queue_scheduler.quota.quota_view import QuotaView
from shared_api.resource_list import Amounts


def read_balances(
    engine: Engine, samples: Mapping[str, Sample], seconds: int
) -> dict[str, QuotaUse]:
    """Return what quotas borrow and lend now, times seconds; those that do neither are left out.

    Args:
        engine: A fork, as all quotas are looked at.
        samples: The samples of the same moment: they say whose units the sums are of.
        seconds: For how long it counts.
    """
    found: dict[str, QuotaUse] = {}
    siblings: defaultdict[tuple[str, str], list[QuotaView]] = defaultdict(list)
    for view in view_all_quotas(engine.plugins):
        siblings[view.tree_id, view.parent].append(view)
    for views in siblings.values():
        borrowed = {view.name: _above(view.used, _min_of(view)) for view in views}
        wanted = {name for amounts in borrowed.values() for name in amounts}
        for view in views:
            unused = _above(_min_of(view), view.used) if view.lends else {}
            lent = {name: amount for name, amount in unused.items() if name in wanted}
            if not borrowed[view.name] and not lent:
                continue
            sample = samples.get(of_quota(view.name), Sample())
            found[view.name] = QuotaUse(
                _times(borrowed[view.name], seconds), _times(lent, seconds), sample.namespaces
            )
    return found


def _min_of(view: QuotaView) -> Amounts:
    return view.scaled_min or view.min


def _above(amounts: Amounts, limit: Amounts) -> Amounts:
    """Return what there is above a limit; a resource that it does not name is all above it."""
    return {
        name: more for name, amount in amounts.items() if (more := amount - limit.get(name, 0)) > 0
    }


def _times(amounts: Amounts, seconds: int) -> Amounts:
    return {name: amount * seconds for name, amount in amounts_of(amounts, amounts).items()}


def keys_of_waiting(engine: Engine) -> Iterable[UseKey]:
    """Return whose units wait now; a fork is asked, as all units are looked at."""
    usage = engine.usage
    found: dict[UseKey, None] = {}
    for record in engine.units:
        if record.state in PENDING and record.info is not None:
            found[UseKey(*usage.account_of(record.info), kind_of(record.unit))] = None
    return found
