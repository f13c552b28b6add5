"""Which queues are strict, which units ask for nodes, and which ones that holds back."""

from __future__ import annotations

from typing import Any

import pytest

from queue_scheduler.queueing.strict_mode import (
    NOT_STRICT,
    SMALL_UNIT,
    NodeRequests,
    StrictMode,
    request_nodes,
)
from shared_api.objects.meta import Uid
from shared_api.queue_unit_phases import Phase
from tests.properties.engine_kit import build_unit, changed

A, B, C = map(Uid, "abc")


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        pytest.param({}, "ab", id="no list: all"),
        pytest.param({"included": frozenset("a")}, "a", id="the listed ones"),
        pytest.param({"excluded": frozenset("a")}, "b", id="all but one"),
        pytest.param({"included": frozenset("ab"), "excluded": frozenset("a")}, "b", id="both"),
        pytest.param({"is_on": False, "included": frozenset("a")}, "", id="switched off"),
    ],
)
def test_which_queues_are_strict(settings: dict[str, Any], want: str) -> None:
    strict = StrictMode(**{"is_on": True, **settings})
    assert "".join(name for name in "ab" if strict.covers(name)) == want


@pytest.mark.parametrize(
    ("demand", "want"),
    [
        pytest.param({"cpu": 128_000, "nvidia.com/gpu": 8}, Phase.DEQUEUED, id="as much"),
        pytest.param({}, Phase.DEQUEUED, id="nothing"),
        pytest.param({"cpu": 128_001}, Phase.SCHED_READY, id="more cpu"),
        pytest.param({"cpu": 1, "nvidia.com/gpu": 9}, Phase.SCHED_READY, id="more gpus"),
        pytest.param({"memory": 2**60}, Phase.DEQUEUED, id="much of an ignored resource"),
    ],
)
def test_small_units_do_not_have_to_ask(demand: dict[str, int], want: Phase) -> None:
    strict = StrictMode(is_on=True, small=dict(SMALL_UNIT))
    assert strict.next_phase("a", demand) is want


def test_without_the_shortcut_all_must_ask() -> None:
    assert StrictMode(is_on=True).next_phase("a", {}) is Phase.SCHED_READY
    assert NOT_STRICT.next_phase("a", {}) is Phase.DEQUEUED


def test_lower_priority_waits_and_equal_or_higher_goes_on() -> None:
    requests = NodeRequests()
    assert not requests.hold_back(-5)
    requests.add(A, 3)
    assert [requests.hold_back(each) for each in (2, 3, 4)] == [True, False, False]


def test_the_highest_counts_until_its_verdict() -> None:
    requests = NodeRequests()
    requests.add(A, 3)
    requests.add(B, 7)
    requests.add(C, 7)
    assert requests.discard(B)
    assert requests.highest == 7
    assert requests.discard(C)
    assert requests.highest == 3
    assert requests.discard(A)
    assert not requests.discard(A)
    assert requests.highest is None


def test_a_copy_is_independent() -> None:
    requests = NodeRequests()
    requests.add(A, 3)
    twin = requests.copy()
    requests.discard(A)
    assert (twin.highest, twin.as_dict()) == (3, {A: 3})


@pytest.mark.parametrize(("before", "want"), [(0, 1), (7, 8), (2**63 - 1, 1)])
def test_each_request_has_a_number_that_the_field_holds(before: int, want: int) -> None:
    unit = changed(build_unit("u"), 2, attempts=before)
    assert request_nodes(unit) == {"attempts": want}
