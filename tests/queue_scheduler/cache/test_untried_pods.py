"""Foreign pods that no scheduler has tried."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from queue_scheduler.cache.pod_accounting import PodFacts, read_counted
from queue_scheduler.cache.untried_pods import UNTRIED_SECONDS, UntriedPods
from queue_scheduler.quota.quota_decision import PodStage
from shared_api.objects.meta import Timestamp
from shared_api.timestamps import parse_time
from tests.properties.engine_kit import build_pod, moment

MADE = parse_time(moment(0))
LATE = MADE + timedelta(seconds=UNTRIED_SECONDS)


def facts(*, node: str = "", is_tried: bool = False) -> PodFacts:
    found, _ = read_counted(build_pod("p", node=node))
    assert found is not None
    return replace(found, is_tried=is_tried)


def with_one() -> UntriedPods:
    pods = UntriedPods()
    pods.put("ns/p", facts())
    return pods


def stage(pods: UntriedPods) -> PodStage:
    return pods.stage_of("ns/p", PodStage.PENDING)


def test_it_is_stuck_after_a_while() -> None:
    pods = with_one()
    assert pods.next_time() == LATE
    assert pods.take_late(LATE - timedelta(seconds=1)) == []
    assert stage(pods) is PodStage.PENDING
    assert pods.take_late(LATE) == ["ns/p"]
    assert stage(pods) is PodStage.STUCK
    assert pods.next_time() is None
    assert pods.take_late(LATE) == [], "once"


def test_it_stays_stuck_when_it_changes_untried() -> None:
    pods = with_one()
    pods.take_late(LATE)
    pods.put("ns/p", facts())
    assert stage(pods) is PodStage.STUCK


def test_it_is_not_once_it_is_tried_bound_or_gone() -> None:
    for change in (facts(is_tried=True), facts(node="n"), None):
        pods = with_one()
        pods.take_late(LATE)
        pods.put("ns/p", change)
        assert stage(pods) is PodStage.PENDING
        pods = with_one()
        pods.put("ns/p", change)
        assert pods.next_time() is None


def test_one_whose_time_cannot_be_read_is_waited_for() -> None:
    pods = UntriedPods()
    pods.put("ns/p", replace(facts(), created=Timestamp("soon")))
    assert pods.next_time() is None
    assert pods.take_late(datetime.max.replace(tzinfo=LATE.tzinfo)) == []


def test_a_fork_is_independent() -> None:
    pods = with_one()
    twin = pods.fork()
    assert twin.take_late(LATE) == ["ns/p"]
    assert stage(pods) is PodStage.PENDING
