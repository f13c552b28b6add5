"""What administrators do with shares, in worlds in which queues take turns by use."""

from __future__ import annotations

from typing import Any, Final

from shared_api.well_known_labels import QUOTA_SHARED_WEIGHT, USER
from tests.simulation.action_table import annotation, edit, label, spec_field
from tests.simulation.limit_actions import USERS
from tests.simulation.world import World

FAIR_SHARES: Final[tuple[dict[str, Any] | None, ...]] = (
    None,
    {"levels": ["user"], "halfLife": "10m", "weights": [{"users": ["ann"], "weight": 3}]},
    {"levels": ["group", "user"], "halfLife": "5m", "minimumCharge": "10s"},
    {"levels": ["namespace"], "halfLife": "1h", "weights": []},
    {"weights": [{"users": ["bob", "eve"], "weight": 0}], "minimumCharge": "2m"},
    {"priority": "First"},
    {"priority": "Within", "resourceWeights": {"cpu": 2}},
)
"""What is merged into the settings of a queue; None: there are none."""


def has_shares(world: World) -> bool:
    return world.plan.has_shares


edit(
    "order_by_account",
    "queues",
    spec_field("queuePolicy"),
    ("Fair", "Fair", "Fair", "Priority"),
    weight=6,
    when=has_shares,
)
edit("set_fair_share", "queues", spec_field("fairShare"), FAIR_SHARES, weight=4, when=has_shares)
edit(
    "set_weight",
    "elasticquotas",
    annotation(QUOTA_SHARED_WEIGHT),
    ('{"cpu": 1}', '{"cpu": 9}', None),
    weight=2,
    when=has_shares,
)
edit("change_user", "queueunits", label(USER), (*USERS, None), weight=2, when=has_shares)
