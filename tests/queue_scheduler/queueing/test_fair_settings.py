"""Settings of queues with the policy Fair: what is read, and what stays if it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queue_scheduler.queueing.fair_settings import (
    DEFAULT_FAIR,
    Level,
    levels_of,
    read_fair_share,
)
from queue_scheduler.queueing.queue_options import read_options, recorded_options
from shared_api.objects.queue import FairShare, FairWeight, QueueStatus
from shared_api.submitters import Submitter
from tests.fair_team import HOUR, FairTeam
from tests.properties.engine_kit import build_queue

GOOD = FairShare(half_life="1h", weights=(FairWeight(users=("ann",), weight=3),))


def test_the_defaults() -> None:
    settings, problem = read_fair_share(None, DEFAULT_FAIR)
    assert (settings.half_life, settings.minimum_charge) == (168 * HOUR, 60)
    assert (settings.levels, settings.is_priority_first, problem) == ((Level.USER,), False, None)
    assert read_fair_share(FairShare(), DEFAULT_FAIR)[0].half_life == 168 * HOUR


def test_what_is_stated() -> None:
    stated = FairShare(
        levels=("group", "user"),
        weights=(
            FairWeight(groups=("vision",), weight=2),
            FairWeight(users=("vision", "ann"), weight=5),
            FairWeight(users=("ann",), weight=7),
        ),
        half_life="1500ms",
        minimum_charge="0s",
        priority="First",
        resource_weights={"cpu": 1},
    )
    settings, problem = read_fair_share(stated, DEFAULT_FAIR)
    assert problem is None
    assert (settings.half_life, settings.minimum_charge, settings.is_priority_first) == (2, 0, True)
    weights = [settings.weight_of(path) for path in (("vision",), ("x", "ann"), ("x", "vision"))]
    assert weights == [2, 5, 5]
    assert settings.weight_of(("x", "bob")) == 1
    lane = settings.lane_of(4, "ns", Submitter("ann", "vision"))
    assert lane == (-4, ("vision", "ann"))
    assert levels_of(lane[1]) == (("vision",), ("vision", "ann"))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"half_life": "0s"}, "halfLife: '0s' is not between 1s and 87600h"),
    ({"half_life": "87601h"}, "halfLife: '87601h' is not between 1s and 87600h"),
    ({"half_life": "soon"}, "halfLife: 'soon' is not a duration such as 30s, 5m or 1h30m"),
    ({"minimum_charge": "25h"}, "minimumCharge: '25h' is not between 0s and 24h"),
    ({"levels": ("group",)}, "levels: they must be [user], [group, user] or [namespace]"),
    ({"levels": ("user", "group")}, "levels: they must be [user], [group, user] or [namespace]"),
    ({"priority": "Last"}, "priority: 'Last' is not Within or First"),
    ({"weights": (FairWeight(weight=1),)}, "weights[0]: name either users, groups or namespaces"),
    (
        {"weights": (FairWeight(users=("ann",), groups=("x",)),)},
        "weights[0]: name either users, groups or namespaces",
    ),
    (
        {"weights": (FairWeight(users=("ann",), weight=-1),)},
        "weights[0]: -1 is not between 0 and 1000000",
    ),
    ({"resource_weights": {"cpu": 0}}, "resourceWeights: a resource must have a weight above 0"),
    (
        {"resource_weights": {"cpu": 10**7}},
        "resourceWeights.cpu: 10000000 is not between 0 and 1000000",
    ),
]


@pytest.mark.parametrize(("fields", "want"), BAD, ids=range(len(BAD)))
def test_bad_settings_leave_all_as_it_was(fields: dict[str, Any], want: str) -> None:
    before, _ = read_fair_share(GOOD, DEFAULT_FAIR)
    settings, problem = read_fair_share(FairShare(**fields), before)
    assert settings is before
    assert problem == f"fairShare.{want}; what was in force stays"


def test_bad_settings_leave_what_was_in_force_after_a_restart() -> None:
    bad = build_queue("q", "Fair", fair_share=FairShare(half_life="0s"))
    queue = replace(bad, status=QueueStatus(fair_share_in_force=GOOD))
    options = read_options(queue, recorded_options(queue))
    assert options.fair.half_life == HOUR
    assert options.fair.stated == GOOD
    assert options.fair_problem.startswith("fairShare.halfLife")


def test_a_mistake_is_an_event_and_changes_no_order() -> None:
    team = FairTeam(GOOD, cpu=1)
    team.engine.take_notices()
    team.put_queue("Fair", FairShare(priority="Last"))
    (notice,) = team.engine.take_notices()
    assert (notice.reason, notice.kind) == ("UnreadableFairShare", "Queue")
    queue = team.engine.queues.find("q")
    assert queue is not None
    assert queue.rules.fair is not None
    assert queue.rules.fair.stated == GOOD
    team.put_queue("Fair", FairShare(priority="Last"))
    assert team.engine.take_notices() == []
