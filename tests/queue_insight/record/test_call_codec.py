"""Calls as bytes: all of them come back as they were, and nothing else is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_insight.record.call_codec import decode_call, encode_call
from queue_scheduler.cycles.engine_call import CALLS, EngineCall
from queue_scheduler.decision import (
    BEGINNING,
    Dequeue,
    Grant,
    Growth,
    Preempt,
    Reason,
    Refusal,
    Victim,
    WriteFailure,
)
from queue_scheduler.reservations.expansion import expand_all
from queue_scheduler.reservations.schedules import key_of
from queue_scheduler.tenants.accounts import Account
from queue_scheduler.tenants.calendars import Calendar
from queue_scheduler.tenants.ledger import StoredAccount, StoredAccounts
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.namespace import Namespace
from shared_api.objects.node import Node, NodeStatus
from shared_api.objects.pod import Pod
from shared_api.objects.queue_unit import Admission
from shared_api.objects.quota_policy import UserLimit
from shared_api.objects.resource_quota import ResourceQuota
from shared_api.queue_unit_phases import Phase
from tests.properties.engine_kit import (
    admitted,
    build_pod,
    build_policy,
    build_queue,
    build_quota,
    build_unit,
)
from tests.reserved_world import build_reservation, build_spec

UNIT = build_unit("u", "a", pods=(("main", 2, 1, 1),))
META = ObjectMeta(name="x", namespace="ns", uid=Uid("uid-x"))
HUGE = 10**30
DEQUEUE = Dequeue(
    unit="ns/u",
    uid=Uid("uid-u"),
    resource_version="1",
    queue="a",
    quota="a",
    grants=(Grant("main", 2, {"cpu": 2000, "memory": HUGE}),),
    to=Phase.RESERVED,
    checks=("check",),
    wake=("a", "b"),
)
VICTIM = Victim(unit="ns/v", uid=Uid("v"), resource_version="3", priority=-1, lost_seconds=9)
PREEMPT = Preempt(
    unit="ns/u",
    uid=Uid("uid-u"),
    queue="a",
    quota="a",
    priority=1,
    reason="Preempted",
    victims=(VICTIM,),
    refusal=Refusal(reason=Reason.OVER_QUOTA_MAX, quota="a", limit=HUGE),
)
GROWTH = Growth(
    unit="ns/u",
    uid=Uid("uid-u"),
    resource_version="1",
    admissions=(Admission(name="main", replicas=2, resources={"cpu": "500m", "gpu": 1.5}),),
)
ANN = Account("a", "q", "ns", "", "ann")
STORED = StoredAccounts(
    settled_at=9,
    complete_from=7,
    accounts=(StoredAccount(ANN, {"cpu": HUGE}, ((8, {"cpu": HUGE - 1}),), 8, 9),),
    is_rebuilt=True,
)

ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "on_queue": ((build_queue("a", "FIFO", priority=2),), {}),
    "on_queue_gone": (("a",), {}),
    "on_queue_unit": ((admitted(UNIT, 7),), {"is_rewound": True}),
    "on_queue_unit_gone": ((UNIT,), {}),
    "on_quota": ((build_quota("a", cpu=4, guaranteed=1),), {}),
    "on_quota_gone": ((Namespace(metadata=META),), {}),
    "on_pod": ((build_pod("p", unit="ns/u"),), {}),
    "on_pod_gone": ((Pod(metadata=META),), {}),
    "on_time": ((BEGINNING,), {}),
    "on_accounts": ((STORED,), {"in_slices": True}),
    "go_on_with_accounts": ((), {}),
    "on_edges": (((0, 1_800_000_000),), {}),
    "on_calendars": (((Calendar("Month", "UTC", (0, 1_800_000_000)),),), {}),
    "on_node": ((Node(metadata=META, status=NodeStatus(allocatable={"cpu": "4"})),), {}),
    "on_node_gone": (("n",), {}),
    "on_admission_check": ((AdmissionCheck(metadata=META),), {}),
    "on_admission_check_gone": (("check",), {}),
    "on_admission_checks_served": ((), {"are_served": False}),
    "on_quota_policy": ((build_policy("p", ["a"], UserLimit(users=("ann",), running=1)),), {}),
    "on_quota_policy_gone": (("p",), {}),
    "on_quota_policies_served": ((), {"are_served": True}),
    "on_schedules": ((expand_all([key_of(build_spec())], 1_800_000_000),), {}),
    "on_reservation": ((build_reservation(in_force=(build_spec(undeclared="Wait"),)),), {}),
    "on_reservation_gone": (("upgrade",), {}),
    "on_reservations_served": ((), {"are_served": True}),
    "go_on_with_limits": ((), {}),
    "check_limits": ((), {"repairs": True}),
    "recount_tenants": ((), {}),
    "place_anew": (("ns/u", None), {}),
    "forget_pod": (("ns/p",), {}),
    "charge_anew": ((Uid("uid-u"),), {}),
    "decide_next": (("a", 0.1 + 0.2, BEGINNING), {}),
    "set_aside": (("ns/u",), {"why": "it raised"}),
    "end_aside": (("ns/u", "1"), {}),
    "on_written": ((DEQUEUE, UNIT), {}),
    "on_write_failed": ((DEQUEUE, WriteFailure.REFUSED), {"retry_at": 1e9 / 3, "why": "no"}),
    "on_preempted": ((PREEMPT, (VICTIM,)), {}),
    "grow": (("ns/u",), {}),
    "on_growth_failed": ((GROWTH,), {}),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_call_comes_back_as_it_was(name: str) -> None:
    args, kwargs = ARGUMENTS[name]
    call = EngineCall(12, 1.25e9, name, args, kwargs)
    got = decode_call(encode_call(call))
    assert got == call
    assert [type(each) for each in got.args] == [type(each) for each in args]


@pytest.mark.parametrize("kind", [ElasticQuotaTree, ResourceQuota, Namespace])
def test_the_kind_that_quotas_come_from_is_kept(kind: type[Any]) -> None:
    got = decode_call(encode_call(EngineCall(1, 0.0, "on_quota", (kind(metadata=META),))))
    assert got.args == (kind(metadata=META),)
    assert type(got.args[0]) is kind


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b'[1,2.0,"grow","",["u"]', id="cut short"),
        pytest.param(b'[1,2.0,"fork","",[],{}]', id="a method that is no call"),
        pytest.param(b'[1,2.0,"on_quota","Secret",[{}],{}]', id="a kind without quotas"),
        pytest.param(b'[1,2.0,"grow","",[7],{}]', id="another type"),
        pytest.param(b'[1,2.0,"grow","",["u","v"],{}]', id="too many arguments"),
        pytest.param(b'[1,2.0,"grow","",[],{"of":"u"}]', id="an unknown argument"),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_call(data)


def test_environment_values_of_pods_are_not_in_the_bytes() -> None:
    container = {"name": "c", "env": [{"name": "TOKEN", "value": "s3cret"}]}
    manifest = {
        "metadata": {
            "name": "p",
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": '{"value":"s3cret"}',
                "kept": "yes",
            },
        },
        "spec": {"containers": [container], "initContainers": [container]},
    }
    pod = msgspec.json.decode(msgspec.json.encode(manifest), type=Pod)
    data = encode_call(EngineCall(1, 0.0, "on_pod", (pod,)))
    assert b"s3cret" not in data
    assert b"kept" in data
