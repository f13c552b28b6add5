"""Charges: admissions and living pods, reported to plugins only when they change."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queue_scheduler.cache.pod_accounting import group_of_strays
from queue_scheduler.cache.unit_charges import UnitCharges
from queue_scheduler.cache.usage import Charge, Usage
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.framework.queue_unit_info import Granted, Occupancy, UnitDemand
from queue_scheduler.tenants.accounts import Account
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts
from shared_api.well_known_labels import GROUP, PREEMPTIBLE, QUOTA_NAME, USER
from tests.properties.engine_kit import build_info, build_pod, build_quota, build_unit
from tests.properties.naive_quota import NaiveQuota

UNIT = build_unit("u", "a", created=0, job="job")
UID = UNIT.metadata.uid
INFO = build_info(UNIT, demand=UnitDemand((), {"cpu": 4000}))


class Recorder(NaiveQuota):
    """A naive quota plugin that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = 0
        self.pods: dict[Uid, int] = {}

    def resize(
        self, uid: Uid, quota: str, amounts: Amounts, *, non_preemptible: bool, pods: int
    ) -> None:
        self.reported += 1
        self.pods[uid] = pods
        super().resize(uid, quota, amounts, non_preemptible=non_preemptible, pods=pods)

    def unreserve(self, uid: Uid) -> None:
        self.reported += 1
        super().unreserve(uid)


@pytest.fixture
def recorder() -> Recorder:
    plugin = Recorder()
    for name in ("a", "b"):
        plugin.on_quota(build_quota(name))
    return plugin


@pytest.fixture
def units() -> dict[str, QueueUnit]:
    return {"ns/u": UNIT}


@pytest.fixture
def usage(recorder: Recorder, units: dict[str, QueueUnit]) -> Usage:
    found = Usage(PluginRunner([recorder]), units.get)
    found.pods.on_unit(UNIT, None)
    return found


def account(quota: str, queue: str = INFO.queue) -> Account:
    """Return the account of the unit, or of pods without one, which are in no queue."""
    return Account(quota, queue, "ns", "", "namespace:ns")


def live(usage: Usage, *cpus: int, quota: str = "a") -> None:
    for n, cpu in enumerate(cpus):
        usage.pods.on_pod(build_pod(f"p{n}", unit="ns/u", owner="job", cpu=cpu, quota=quota))


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
    usage: Usage, recorder: Recorder, pods: tuple[int, ...], admitted: int, want: int
) -> None:
    live(usage, *pods)
    usage.charge_admitted(INFO, Granted(Occupancy({"cpu": admitted}, 1)))
    assert recorder.booked() == {UID: ("a", {"cpu": want})}
    count = max(1, len(pods))
    charge = Charge(
        account("a"), {"cpu": want}, non_preemptible=False, pods=count, is_admitted=True
    )
    assert usage.charge_of(UID) == charge
    assert list(usage) == [UID]


def test_the_same_charge_is_not_reported_twice(usage: Usage, recorder: Recorder) -> None:
    usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, 1)))
    reported = recorder.reported
    usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, 1)))
    assert recorder.reported == reported
    usage.release(UID)
    reported = recorder.reported
    usage.release(UID)
    assert recorder.reported == reported


def test_another_user_changes_the_account_and_nothing_for_quotas(
    usage: Usage, recorder: Recorder
) -> None:
    granted = Granted(Occupancy({"cpu": 4000}, 1))
    usage.charge_admitted(INFO, granted)
    before = recorder.reported, usage.changes, usage.releases
    meta = replace(UNIT.metadata, labels={**UNIT.metadata.labels, USER: "ann", GROUP: "vision"})
    usage.charge_admitted(replace(INFO, unit=replace(UNIT, metadata=meta)), granted)
    charge = usage.charge_of(UID)
    assert charge is not None
    assert charge.account == Account("a", "q", "ns", "vision", "ann")
    assert (recorder.reported, usage.changes, usage.releases) == before


def test_a_change_of_pods_alone_is_reported(usage: Usage, recorder: Recorder) -> None:
    for pods in (4, 2, 2):
        usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, pods)))
    assert (recorder.pods, usage.changes) == ({UID: 2}, 2)
    live(usage, 1, 1, 1)
    usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, 2)))
    assert recorder.pods == {UID: 3}, "what lives, where that is more than was granted"
    usage.charge_living(UID, account("a"), non_preemptible=False)
    usage.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
    usage.charge_living(UID, account("a"), non_preemptible=False)
    assert recorder.pods == {UID: 2}


def test_a_reservation_is_not_reported_again(usage: Usage, recorder: Recorder) -> None:
    recorder.reserve(INFO)
    reported = recorder.reported
    usage.note_reserved(INFO)
    assert usage.charge_of(UID) == Charge(
        account("a"), {"cpu": 4000}, non_preemptible=False, pods=1, is_admitted=True
    )
    assert recorder.reported == reported


def test_pods_of_an_earlier_run_are_not_forgotten_by_the_next(
    usage: Usage, recorder: Recorder
) -> None:
    live(usage, 6)
    usage.charge_living(UID, account("a"), non_preemptible=False)
    recorder.reserve(INFO)
    usage.note_reserved(INFO)
    assert recorder.booked() == {UID: ("a", {"cpu": 6000})}


def test_a_free_unit_occupies_its_living_pods(usage: Usage, recorder: Recorder) -> None:
    usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, 1)))
    live(usage, 1)
    usage.charge_living(UID, account("a"), non_preemptible=True)
    assert usage.charge_of(UID) == Charge(account("a"), {"cpu": 1000}, non_preemptible=True, pods=1)
    usage.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
    usage.charge_living(UID, account("a"), non_preemptible=True)
    assert usage.charge_of(UID) is None
    assert recorder.booked() == {}


class TestWhoseQuota:
    def test_the_current_quota_of_the_unit(self, usage: Usage) -> None:
        live(usage, 1)
        usage.charge_living(UID, account("a"), non_preemptible=False)
        usage.charge_living(UID, account("b"), non_preemptible=False)
        assert usage.charge_of(UID) == Charge(
            account("b"), {"cpu": 1000}, non_preemptible=False, pods=1
        )

    def test_the_previous_quota_if_the_current_one_is_unknown(self, usage: Usage) -> None:
        live(usage, 1)
        usage.charge_living(UID, account("a"), non_preemptible=True)
        usage.charge_living(UID, account(""), non_preemptible=False)
        assert usage.charge_of(UID) == Charge(
            account("a"), {"cpu": 1000}, non_preemptible=True, pods=1
        )

    def test_the_quota_of_the_pods_label_if_there_was_none(self, usage: Usage) -> None:
        live(usage, 1)
        usage.charge_living(UID, account(""), non_preemptible=False)
        assert usage.charge_of(UID) == Charge(
            account("a", queue=""), {"cpu": 1000}, non_preemptible=False, pods=1
        )

    def test_the_last_quota_of_a_deleted_unit(
        self, usage: Usage, units: dict[str, QueueUnit]
    ) -> None:
        live(usage, 1)
        usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, 1)))
        del units["ns/u"]
        usage.pods.on_unit_gone(UNIT)
        usage.charge_left_behind(UID)
        assert usage.charge_of(UID) == Charge(
            account("a"), {"cpu": 1000}, non_preemptible=False, pods=1
        )
        usage.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
        usage.charge_left_behind(UID)
        assert usage.charge_of(UID) is None

    def test_the_quota_of_the_pods_labels_for_strays(self, usage: Usage) -> None:
        stray = Uid(group_of_strays("ns/other", {QUOTA_NAME: "a"}))
        pod = build_pod("p", unit="ns/other", quota="a")
        pod.metadata.labels[PREEMPTIBLE] = "false"
        usage.pods.on_pod(pod)
        usage.charge_left_behind(stray)
        assert usage.charge_of(stray) == Charge(
            account("a", queue=""), {"cpu": 1000}, non_preemptible=True, pods=1
        )
        usage.pods.on_pod(build_pod("p", unit="ns/other", quota="a"))
        usage.charge_left_behind(stray)
        assert usage.charge_of(stray) == Charge(
            account("a", queue=""), {"cpu": 1000}, non_preemptible=False, pods=1
        )


def test_foreign_pods_are_passed_on(usage: Usage, recorder: Recorder) -> None:
    usage.pods.on_pod(build_pod("p", quota="a"))
    usage.report_foreign()
    assert list(recorder.foreign) == ["ns/p"]
    usage.pods.on_pod_gone(build_pod("p"))
    usage.report_foreign()
    assert not recorder.foreign


def test_a_fork_books_with_its_own_plugins(
    usage: Usage, recorder: Recorder, units: dict[str, QueueUnit]
) -> None:
    usage.charge_admitted(INFO, Granted(Occupancy({"cpu": 4000}, 1)))
    plugins = PluginRunner([recorder]).fork()
    twin = usage.fork(plugins, units.get)
    twin.release(UID)
    assert usage.charge_of(UID) is not None
    assert recorder.booked() != {}
    assert twin.charge_of(UID) is None


def test_a_unit_left_behind_is_charged_its_living_pods(usage: Usage) -> None:
    live(usage, 1, 2)
    usage.charge_living(UID, account("a", queue=""), non_preemptible=False)
    charges = UnitCharges(PluginRunner([]), usage, {})
    charges.validate()
    usage.pods.on_pod_gone(build_pod("p1", unit="ns/u"))
    with pytest.raises(AssertionError, match="is charged"):
        charges.validate()
    usage.pods.on_pod_gone(build_pod("p0", unit="ns/u"))
    with pytest.raises(AssertionError, match="has no pods"):
        charges.validate()
