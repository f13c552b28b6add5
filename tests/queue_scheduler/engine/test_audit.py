"""What the engine keeps, against single objects: the words, and repairs that come too late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_scheduler.decision import Refused
from queue_scheduler.engine.audit import (
    Caches,
    Difference,
    Kind,
    find_repair,
    judge_charges,
    judge_pods,
    judge_units,
)
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy
from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.meta import Uid
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import QueueUnit
from shared_api.well_known_labels import PREEMPTIBLE
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_queue,
    build_quota,
    build_unit,
    changed,
)
from tests.properties.real_quotas import RealQuotas, new_engine

UNIT = admitted(build_unit("u", "a", cpu=2, version=1, labels={PREEMPTIBLE: "false"}), 2, "Running")
POD = build_pod("p", unit="ns/u", cpu=3)
GHOST = Uid("uid-ghost")


class Objects:
    """An engine with a unit and its pod, and caches that a test changes."""

    def __init__(self, cpu: int = 10) -> None:
        self.engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
        self.engine.on_quota(build_quota("a", cpu=cpu))
        self.engine.on_queue(build_queue("a"))
        self.engine.on_queue_unit(UNIT)
        self.engine.on_pod(POD)
        self.units: dict[str, QueueUnit] = {"ns/u": UNIT}
        self.pods: dict[str, Pod] = {"ns/p": POD}
        self.caches = Caches(self.units.get, self.pods.get)

    def find(self) -> list[Difference]:
        return [
            *judge_units(self.engine, ("ns/u", "ns/v"), self.caches),
            *judge_pods(self.engine, ("ns/p", "ns/q"), self.caches),
            *judge_charges(self.engine, (GHOST,)),
        ]

    def repair(self, difference: Difference) -> tuple[str, ...]:
        facts = find_repair(self.engine, difference, self.caches)
        woken = [queue for apply, about in facts for queue in apply(self.engine, *about)]
        return tuple(dict.fromkeys(woken))


def occupy(objects: Objects, amount: int) -> None:
    record = objects.engine.record("ns/u")
    assert record is not None
    assert record.info is not None
    charged = Granted(Occupancy({"cpu": amount}, 1))
    objects.engine.usage.charge_admitted(record.info, charged)


def charge(objects: Objects, uid: Uid) -> None:
    RealQuotas(objects.engine).plugin.quotas.charge(uid, "a", Demand({"cpu": 9000}))


def uncache_unit(objects: Objects) -> None:
    del objects.units["ns/u"]


def cache_newer_unit(objects: Objects) -> None:
    objects.units["ns/u"] = changed(UNIT, 3, "Succeed")


def cache_other_unit(objects: Objects) -> None:
    objects.units["ns/v"] = build_unit("v", "a", version=9)


def uncache_pod(objects: Objects) -> None:
    del objects.pods["ns/p"]


def cache_labelled_pod(objects: Objects) -> None:
    objects.pods["ns/p"] = build_pod("p", unit="ns/u", cpu=3, quota="b")


def cache_owned_pod(objects: Objects) -> None:
    objects.pods["ns/p"] = build_pod("p", unit="ns/u", cpu=3, owner="other")


def cache_other_pod(objects: Objects) -> None:
    objects.pods["ns/q"] = build_pod("q", node="")


RUNNING = "cpu 3, 1 pod of quota a, not preemptible"
OF_UNIT = "cpu 3, bound, of unit uid-u"

WORDS = [
    (cache_other_unit, Kind.UNKNOWN_UNIT, "version 9 (Enqueued), uid uid-v", "nothing"),
    (uncache_unit, Kind.GONE_UNIT, "nothing", "version 2 (Running), uid uid-u"),
    (
        cache_newer_unit,
        Kind.OUTDATED_UNIT,
        "version 3 (Succeed), uid uid-u",
        "version 2 (Running), uid uid-u",
    ),
    (
        lambda objects: occupy(objects, 9000),
        Kind.CHARGE,
        RUNNING,
        "cpu 9, 1 pod of quota a, not preemptible",
    ),
    (
        lambda objects: charge(objects, UNIT.metadata.uid),
        Kind.LEDGER,
        "ElasticQuotaV2: cpu 3 of quota a, not preemptible",
        "ElasticQuotaV2: cpu 9 of quota a",
    ),
    (
        lambda objects: charge(objects, GHOST),
        Kind.LEDGER,
        "ElasticQuotaV2: nothing",
        "ElasticQuotaV2: cpu 9 of quota a",
    ),
    (
        lambda objects: objects.engine.units.admitted.remove(objects.engine.units.records["ns/u"]),
        Kind.MISPLACED_UNIT,
        "admitted or held",
        "not admitted",
    ),
    (uncache_pod, Kind.GONE_POD, "not counted", OF_UNIT),
    (
        cache_labelled_pod,
        Kind.UNCOUNTED_POD,
        "cpu 3, bound, elsewhere, of unit uid-u in quota b at node b",
        OF_UNIT,
    ),
    (cache_owned_pod, Kind.UNCOUNTED_POD, OF_UNIT, f"{OF_UNIT}, by other labels or another owner"),
    (cache_other_pod, Kind.UNCOUNTED_POD, "cpu 1, not bound, without a unit", "not counted"),
]


@pytest.mark.parametrize(("plant", "kind", "want", "got"), WORDS)
def test_both_sides_of_a_difference_are_told(
    plant: Callable[[Objects], None], kind: Kind, want: str, got: str
) -> None:
    objects = Objects()
    assert objects.find() == []
    plant(objects)
    (found,) = objects.find()
    assert (found.kind, found.want, found.got) == (kind, want, got)


def news_of_the_unit(objects: Objects) -> None:
    objects.units["ns/u"] = changed(UNIT, 7, "Running")
    objects.engine.on_queue_unit(objects.units["ns/u"])
    objects.engine.usage.release(UNIT.metadata.uid)


def news_of_the_pod(objects: Objects) -> None:
    objects.pods["ns/p"] = build_pod("p", unit="ns/u", cpu=4)


def news_of_the_ghost(objects: Objects) -> None:
    """It has a unit now, whose event was late."""
    late = build_unit("late", "a", version=8, uid=GHOST)
    objects.units["ns/late"] = late
    objects.engine.on_queue_unit(late)


@pytest.mark.parametrize(
    ("plant", "news"),
    [
        pytest.param(lambda objects: occupy(objects, 9000), news_of_the_unit, id="a unit"),
        pytest.param(uncache_pod, news_of_the_pod, id="a pod"),
        pytest.param(lambda objects: charge(objects, GHOST), news_of_the_ghost, id="a charge"),
    ],
)
def test_what_has_changed_since_it_was_judged_is_left_alone(
    plant: Callable[[Objects], None], news: Callable[[Objects], None]
) -> None:
    objects = Objects()
    plant(objects)
    (found,) = objects.find()
    news(objects)
    before = _state(objects.engine)
    assert objects.repair(found) == ()
    assert _state(objects.engine) == before


def _state(engine: Engine) -> tuple[object, ...]:
    usage = engine.usage
    ledger = RealQuotas(engine).plugin.quotas.ledger
    return (
        dict(engine.units.records),
        {uid: usage.charge_of(uid) for uid in usage},
        {owner: ledger.charge_of(owner) for owner in ledger.owners()},
    )


def test_a_repair_that_frees_room_wakes_the_queue_that_needs_it() -> None:
    objects = Objects(cpu=10)
    occupy(objects, 9000)
    objects.engine.on_queue_unit(build_unit("next", "a", cpu=5, version=5))
    assert isinstance(objects.engine.decide_next("a", 0.0), Refused)
    (found,) = objects.find()
    assert objects.repair(found) == ("a",)
    assert objects.find() == []
