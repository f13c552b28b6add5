"""Charges: admissions and living pods, told to the plugins only when they change."""

from __future__ import annotations

import pytest

from queue_scheduler.cache.pod_accounting import group_of_strays
from queue_scheduler.cache.usage import Charge, Usage
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Occupancy, QueueUnitInfo, UnitDemand
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import PREEMPTIBLE, QUOTA_NAME
from tests.properties.engine_kit import build_pod, build_quota, build_unit
from tests.properties.naive_quota import NaiveQuota

UNIT = build_unit("u", "a", created=0, job="job")
UID = UNIT.metadata.uid
INFO = QueueUnitInfo(
    key="ns/u",
    uid=UID,
    unit=UNIT,
    queue="q",
    quota="a",
    demand=UnitDemand((), {"cpu": 4000}),
    non_preemptible=False,
    priority=UNIT.spec.priority,
    order_key=("ns", "u"),
    class_key=("a",),
)


class Recorder(NaiveQuota):
    """Naive books that count what they are told."""

    def __init__(self) -> None:
        super().__init__()
        self.told = 0
        self.pods: dict[Uid, int] = {}

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        self.told += 1
        self.pods[uid] = pods
        super().resize(uid, quota, amounts, non_preemptible=non_preemptible, pods=pods)

    def unreserve(self, uid: Uid) -> None:
        self.told += 1
        super().unreserve(uid)


@pytest.fixture
def books() -> Recorder:
    plugin = Recorder()
    for name in ("a", "b"):
        plugin.on_quota(build_quota(name))
    return plugin


@pytest.fixture
def units() -> dict[str, QueueUnit]:
    return {"ns/u": UNIT}


@pytest.fixture
def bookings(books: Recorder, units: dict[str, QueueUnit]) -> Usage:
    found = Usage(PluginRunner([books]), units.get)
    found.pods.on_unit(UNIT, None)
    return found


def live(bookings: Usage, *cpus: int) -> None:
    for n, cpu in enumerate(cpus):
        bookings.pods.on_pod(build_pod(f"p{n}", unit="ns/u", owner="job", cpu=cpu, quota="b"))


@pytest.mark.parametrize(
    ("pods", "admitted", "want"),
    [
        pytest.param((), 4000, 4000, id="granted, no pods yet"),
        pytest.param((1, 2), 4000, 4000, id="granted more than lives"),
        pytest.param((3, 3), 4000, 6000, id="more lives than granted"),
        pytest.param((1,), 0, 1000, id="all given back"),
    ],
)
def test_a_booked_unit_occupies_the_larger(
    bookings: Usage, books: Recorder, pods: tuple[int, ...], admitted: int, want: int
) -> None:
    live(bookings, *pods)
    bookings.charge_admitted(INFO, Occupancy({"cpu": admitted}, 1))
    assert books.booked() == {UID: ("a", {"cpu": want})}
    charge = Charge("a", {"cpu": want}, non_preemptible=False, pods=max(1, len(pods)))
    assert bookings.charge_of(UID) == charge
    assert list(bookings) == [UID]


def test_the_same_charge_is_not_told_twice(bookings: Usage, books: Recorder) -> None:
    bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, 1))
    told = books.told
    bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, 1))
    assert books.told == told
    bookings.release(UID)
    told = books.told
    bookings.release(UID)
    assert books.told == told


def test_pods_that_change_alone_are_told(bookings: Usage, books: Recorder) -> None:
    for pods in (4, 2, 2):
        bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, pods))
    assert (books.pods, bookings.changes) == ({UID: 2}, 2)
    live(bookings, 1, 1, 1)
    bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, 2))
    assert books.pods == {UID: 3}, "what lives, where that is more than was granted"
    bookings.charge_living(UID, "a", non_preemptible=False)
    bookings.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
    bookings.charge_living(UID, "a", non_preemptible=False)
    assert books.pods == {UID: 2}


def test_what_was_reserved_is_not_told_again(bookings: Usage, books: Recorder) -> None:
    books.reserve(INFO)
    told = books.told
    bookings.note_reserved(INFO)
    assert bookings.charge_of(UID) == Charge("a", {"cpu": 4000}, non_preemptible=False, pods=1)
    assert books.told == told


def test_pods_of_an_earlier_run_are_not_forgotten_by_the_next(
    bookings: Usage, books: Recorder
) -> None:
    live(bookings, 6)
    bookings.charge_living(UID, "a", non_preemptible=False)
    books.reserve(INFO)
    bookings.note_reserved(INFO)
    assert books.booked() == {UID: ("a", {"cpu": 6000})}


def test_a_free_unit_occupies_what_lives(bookings: Usage, books: Recorder) -> None:
    bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, 1))
    live(bookings, 1)
    bookings.charge_living(UID, "a", non_preemptible=True)
    assert bookings.charge_of(UID) == Charge("a", {"cpu": 1000}, non_preemptible=True, pods=1)
    bookings.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
    bookings.charge_living(UID, "a", non_preemptible=True)
    assert bookings.charge_of(UID) is None
    assert books.booked() == {}


class TestWhoseQuota:
    def test_that_of_the_unit_now(self, bookings: Usage) -> None:
        live(bookings, 1)
        bookings.charge_living(UID, "a", non_preemptible=False)
        bookings.charge_living(UID, "b", non_preemptible=False)
        assert bookings.charge_of(UID) == Charge("b", {"cpu": 1000}, non_preemptible=False, pods=1)

    def test_where_that_is_unknown_the_one_before(self, bookings: Usage) -> None:
        live(bookings, 1)
        bookings.charge_living(UID, "a", non_preemptible=True)
        bookings.charge_living(UID, "", non_preemptible=False)
        assert bookings.charge_of(UID) == Charge("a", {"cpu": 1000}, non_preemptible=True, pods=1)

    def test_where_there_was_none_the_pods_label(self, bookings: Usage) -> None:
        live(bookings, 1)
        bookings.charge_living(UID, "", non_preemptible=False)
        assert bookings.charge_of(UID) == Charge("b", {"cpu": 1000}, non_preemptible=False, pods=1)

    def test_of_a_unit_that_is_gone_the_one_before(
        self, bookings: Usage, units: dict[str, QueueUnit]
    ) -> None:
        live(bookings, 1)
        bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, 1))
        del units["ns/u"]
        bookings.pods.on_unit_gone(UNIT)
        bookings.charge_left_behind(UID)
        assert bookings.charge_of(UID) == Charge("a", {"cpu": 1000}, non_preemptible=False, pods=1)
        bookings.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
        bookings.charge_left_behind(UID)
        assert bookings.charge_of(UID) is None

    def test_of_strays_the_pods_labels(self, bookings: Usage) -> None:
        stray = Uid(group_of_strays("ns/other", {QUOTA_NAME: "a"}))
        pod = build_pod("p", unit="ns/other", quota="a")
        pod.metadata.labels[PREEMPTIBLE] = "false"
        bookings.pods.on_pod(pod)
        bookings.charge_left_behind(stray)
        assert bookings.charge_of(stray) == Charge("a", {"cpu": 1000}, non_preemptible=True, pods=1)
        bookings.pods.on_pod(build_pod("p", unit="ns/other", quota="a"))
        bookings.charge_left_behind(stray)
        assert bookings.charge_of(stray) == Charge(
            "a", {"cpu": 1000}, non_preemptible=False, pods=1
        )


def test_foreign_pods_are_passed_on(bookings: Usage, books: Recorder) -> None:
    bookings.pods.on_pod(build_pod("p", quota="a"))
    bookings.tell_foreign()
    assert list(books.foreign) == ["ns/p"]
    bookings.pods.on_pod_gone(build_pod("p"))
    bookings.tell_foreign()
    assert not books.foreign


def test_a_fork_books_with_its_own_plugins(
    bookings: Usage, books: Recorder, units: dict[str, QueueUnit]
) -> None:
    bookings.charge_admitted(INFO, Occupancy({"cpu": 4000}, 1))
    plugins = PluginRunner([books]).fork()
    twin = bookings.fork(plugins, units.get)
    twin.release(UID)
    assert bookings.charge_of(UID) is not None
    assert books.booked() != {}
    assert twin.charge_of(UID) is None


def test_who_is_left_behind_is_charged_what_lives(bookings: Usage) -> None:
    live(bookings, 1, 2)
    bookings.charge_living(UID, "a", non_preemptible=False)
    bookings.validate_left_behind(())
    bookings.pods.on_pod_gone(build_pod("p1", unit="ns/u"))
    bookings.validate_left_behind({UID})
    with pytest.raises(AssertionError, match="is charged"):
        bookings.validate_left_behind(())
    bookings.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
    with pytest.raises(AssertionError, match="has no pods"):
        bookings.validate_left_behind(())
