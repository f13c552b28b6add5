"""Guards against needless evictions, in some worlds: on queues, quotas and units."""

from __future__ import annotations

from shared_api.well_known_labels import (
    EVICTION_DELAY,
    EVICTIONS_PER_HOUR,
    PREEMPT_MIN_RUNTIME,
    PRIORITY_BOOST,
    RECLAIM_MIN_RUNTIME,
)
from tests.simulation.action_table import annotation, edit
from tests.simulation.world import World


def has_guards(world: World) -> bool:
    return world.plan.has_guards


edit(
    "set_preempt_min_runtime",
    "queues",
    annotation(PREEMPT_MIN_RUNTIME),
    ("30s", "2m", "soon", None),
    weight=4,
    when=has_guards,
)
edit(
    "set_reclaim_min_runtime",
    "elasticquotas",
    annotation(RECLAIM_MIN_RUNTIME),
    ("30s", "2m", "soon", None),
    weight=4,
    when=has_guards,
)
edit(
    "set_evictions_per_hour",
    "queues",
    annotation(EVICTIONS_PER_HOUR),
    ("1", "30", "many", None),
    weight=4,
    when=has_guards,
)
edit(
    "set_eviction_delay",
    "queues",
    annotation(EVICTION_DELAY),
    ("45s", "2m", "soon", None),
    weight=4,
    when=has_guards,
)
edit(
    "boost_unit",
    "queueunits",
    annotation(PRIORITY_BOOST),
    ("7", "-7", "9999", None),
    weight=4,
    when=has_guards,
)
