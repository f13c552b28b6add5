"""Which units the controllers of pods stand for."""

from __future__ import annotations

from msgspec.structs import replace

from queue_scheduler.cache.unit_owners import UnitOwners, owners_of_pods
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import ConsumerReference, QueueUnit
from tests.properties.engine_kit import build_unit


def unit(name: str, job: str, *children: str) -> QueueUnit:
    made = build_unit(name)
    consumer = ConsumerReference(uid=Uid(job)) if job else None
    return replace(
        made,
        spec=replace(made.spec, consumer_ref=consumer),
        status=replace(made.status, pod_owners=tuple(map(Uid, children))),
    )


def test_the_job_and_its_children_stand_for_the_unit() -> None:
    owners = UnitOwners()
    owners.put(unit("u", "job", "child", "job"))
    assert [owners.units_of(Uid(each)) for each in ("job", "child", "other")] == [
        ("ns/u",),
        ("ns/u",),
        (),
    ]
    assert owners_of_pods(unit("u", "job", "child", "job")) == ("job", "child")
    assert owners_of_pods(unit("u", "")) == ()


def test_several_units_of_one_job_are_sorted_and_forgotten_one_by_one() -> None:
    owners = UnitOwners()
    for name in ("v", "u", "u"):
        owners.put(unit(name, "job"))
    twin = owners.fork()
    owners.forget(unit("u", "job"))
    assert owners.units_of(Uid("job")) == ("ns/v",)
    owners.forget(unit("v", "job"))
    assert owners.units_of(Uid("job")) == ()
    assert twin.units_of(Uid("job")) == ("ns/u", "ns/v")
