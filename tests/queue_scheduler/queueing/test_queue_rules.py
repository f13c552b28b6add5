"""The rules of a queue: what follows from its object, its policy and its options."""

from __future__ import annotations

import pytest

from queue_scheduler.queueing.queue_options import BACKFILL_DEPTH, QueueOptions, StopPolicy
from queue_scheduler.queueing.queue_policies import HoldsBack
from queue_scheduler.queueing.queue_rules import QueueRules, build_rules
from tests.properties.engine_kit import build_queue, build_unit
from tests.queue_scheduler.queueing.scheduling_queue_kit import POLICIES

BACKFILLS = QueueOptions(backfill=True)


def rules_of(policy: str, options: QueueOptions) -> QueueRules:
    return build_rules(build_queue("q", policy), POLICIES[policy], options)


@pytest.mark.parametrize(
    ("policy", "options", "want"),
    [
        pytest.param("Priority", QueueOptions(), HoldsBack.NOBODY, id="Priority"),
        pytest.param("Block", QueueOptions(), HoldsBack.SAME_QUOTA, id="Block"),
        pytest.param("Block", BACKFILLS, HoldsBack.NOBODY, id="backfill decides instead"),
        pytest.param("Intelligent", BACKFILLS, HoldsBack.SAME_QUOTA, id="bands do not backfill"),
    ],
)
def test_what_the_first_unit_holds_back(
    policy: str, options: QueueOptions, want: HoldsBack
) -> None:
    rules = rules_of(policy, options)
    key = rules.place(build_unit("u", "a", priority=9), None)
    assert rules.holds_back(key) is want
    assert rules.blocks is (want is HoldsBack.SAME_QUOTA)


@pytest.mark.parametrize(
    ("policy", "options", "want"),
    [
        pytest.param("Priority", QueueOptions(), None, id="no depth"),
        pytest.param("Priority", QueueOptions(max_depth=3), 3, id="its own"),
        pytest.param("Priority", BACKFILLS, BACKFILL_DEPTH, id="backfill has one"),
        pytest.param("Priority", QueueOptions(backfill=True, max_depth=3), 3, id="the lower one"),
        pytest.param("Intelligent", BACKFILLS, None, id="bands do not backfill"),
    ],
)
def test_how_deep_a_queue_looks(policy: str, options: QueueOptions, want: int | None) -> None:
    rules = rules_of(policy, options)
    assert rules.depth == want
    assert rules.is_limited is (want is not None or policy == "Intelligent")


@pytest.mark.parametrize(
    ("policy", "options", "want"),
    [
        pytest.param("Priority", QueueOptions(), True, id="Priority"),
        pytest.param("Priority", QueueOptions(max_depth=9), False, id="a depth"),
        pytest.param("FIFO", QueueOptions(), False, id="FIFO"),
        pytest.param("Intelligent", QueueOptions(), False, id="bands"),
    ],
)
def test_where_all_are_asked_whatever_is_refused(
    policy: str, options: QueueOptions, *, want: bool
) -> None:
    assert rules_of(policy, options).asks_past_refused is want


@pytest.mark.parametrize(("policy", "want"), [("Block", True), ("FIFO", False)])
def test_only_queues_ordered_by_priority_let_units_evict(policy: str, *, want: bool) -> None:
    assert rules_of(policy, QueueOptions(preempts=True)).lets_evict is want


def test_a_ceiling_bounds_the_priority_and_with_it_the_band() -> None:
    unit = build_unit("u", "a", priority=9)
    rules = rules_of("Intelligent", QueueOptions(max_priority=1))
    assert rules.bounded(unit).spec.priority == 1
    assert (rules.place(unit, None)[0], rules.place(rules.bounded(unit), None)[0]) == (0, 1)


def test_a_stopped_queue_is_limited() -> None:
    rules = rules_of("Priority", QueueOptions(stop=StopPolicy.HOLD))
    assert (rules.is_stopped, rules.is_limited) == (True, True)
