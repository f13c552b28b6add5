"""Compacted objects are equal to the decoded ones, and share equal parts."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from shared_api.objects import compactor
from shared_api.objects.compactor import Compactor
from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, WireStruct
from shared_api.objects.pod import Container, Pod, PodSchedulingGate, PodStatus, PodTemplate
from shared_api.objects.queue_unit import QueueUnit, SalvagedUnit

SPEC: dict[str, Any] = {
    "queue": "team-a-queue",
    "consumerRef": {"kind": "PyTorchJob", "namespace": "team-a", "name": "job", "uid": "7"},
    "request": {"cpu": "1500m", "example.com/a-resource-with-a-long-name": 2},
    "podSet": [
        {
            "name": "worker",
            "count": 3,
            "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "250m"}}}]}},
        }
    ],
}
STATUS = {
    "phase": "Dequeued",
    "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}],
    "podOwners": ["1", "2"],
}


def decode(name: str, cpu: str = "250m", **meta: Any) -> QueueUnit:
    body = {"metadata": {"name": name, **meta}, "spec": SPEC, "status": STATUS}
    text = json.dumps(body).replace("250m", cpu)
    return msgspec.json.decode(text.encode(), type=QueueUnit)


def test_a_compacted_object_is_equal_to_the_decoded_one() -> None:
    labels: dict[str, Any] = {
        "labels": {"a": "b"},
        "annotations": {},
        "ownerReferences": [{"uid": "7"}],
    }
    unit = decode("one", **labels)
    assert Compactor().compact(unit) is unit
    assert unit == decode("one", **labels)
    assert unit.spec.request["example.com/a-resource-with-a-long-name"] == 2
    assert unit.status.pod_owners == ("1", "2")


def test_equal_parts_of_two_objects_become_one() -> None:
    shared = Compactor()
    first, second = (shared.compact(decode(name)) for name in ("one", "two"))
    assert first.spec.queue is second.spec.queue
    assert first.status.phase is second.status.phase
    assert first.status.conditions[0].type is second.status.conditions[0].reason
    assert first.spec.request["cpu"] is second.spec.request["cpu"]
    assert first.metadata.labels is second.metadata.labels is first.spec.resource
    assert first.spec.pod_set[0].template is second.spec.pod_set[0].template
    keys = zip(first.spec.request, second.spec.request, strict=True)
    assert all(one is other for one, other in keys)


def test_equal_conditions_become_one() -> None:
    shared = Compactor()
    first, second = (shared.compact(decode(name)) for name in ("one", "two"))
    assert first.status.conditions[0] is second.status.conditions[0]


def test_the_memory_of_conditions_is_bounded() -> None:
    shared = Compactor()

    def condition(number: int) -> Condition:
        body = {"status": {"conditions": [{"type": f"t{number}"}]}}
        return shared.compact(msgspec.convert(body, QueueUnit)).status.conditions[0]

    first = condition(0)
    assert condition(0) is first
    for number in range(1, compactor.MAX_CONDITIONS + 1):
        condition(number)
    assert condition(0) == first
    assert condition(0) is not first


def test_different_templates_stay_different() -> None:
    shared = Compactor()
    first, second = shared.compact(decode("one")), shared.compact(decode("two", cpu="1"))
    assert first.spec.pod_set[0].template != second.spec.pod_set[0].template


def test_the_memory_of_templates_is_bounded() -> None:
    shared = Compactor()
    units = [
        shared.compact(decode("one", cpu=f"{number}m"))
        for number in range(compactor.MAX_TEMPLATES + 2)
    ]
    # The first was evicted in between, so it is now distinct from its equal.
    again = shared.compact(decode("two", cpu="0m"))
    assert again.spec.pod_set[0].template == units[0].spec.pod_set[0].template
    assert again.spec.pod_set[0].template is not units[0].spec.pod_set[0].template
    last = shared.compact(decode("three", cpu=f"{compactor.MAX_TEMPLATES + 1}m"))
    assert last.spec.pod_set[0].template is units[-1].spec.pod_set[0].template


def padded(length: int, number: int = 0) -> QueueUnit:
    """Return a unit whose template has a resource with a name of this length."""
    return decode("one", cpu=f'{number}m", "{"x" * length}": "1')


def test_a_long_template_is_kept_by_its_own_object_alone() -> None:
    shared = Compactor()
    units = [padded(compactor.MAX_TEMPLATE_BYTES) for _ in range(2)]
    first, second = (shared.compact(unit).spec.pod_set[0].template for unit in units)
    assert first == second
    assert first is not second
    units = [padded(compactor.MAX_TEMPLATE_BYTES // 2) for _ in range(2)]
    first, second = (shared.compact(unit).spec.pod_set[0].template for unit in units)
    assert first is second


def test_the_bytes_of_templates_are_bounded() -> None:
    shared = Compactor()
    half = compactor.MAX_TEMPLATE_BYTES // 2
    first = shared.compact(padded(half)).spec.pod_set[0].template
    most = compactor.MAX_TEMPLATES_BYTES // half
    assert most < compactor.MAX_TEMPLATES
    for number in range(1, most):
        shared.compact(padded(half, number))
        if number == most // 2:  # long before there are too many
            assert shared.compact(padded(half)).spec.pod_set[0].template is first
    again = shared.compact(padded(half)).spec.pod_set[0].template
    assert again == first
    assert again is not first


def test_a_long_condition_is_kept_by_its_own_object_alone() -> None:
    shared = Compactor()

    def condition(length: int) -> Condition:
        body = {"status": {"conditions": [{"type": "t", "message": "x" * length}]}}
        return shared.compact(msgspec.convert(body, QueueUnit)).status.conditions[0]

    long = compactor.MAX_CONDITION_CHARS
    assert condition(long) == condition(long)
    assert condition(long) is not condition(long)
    assert condition(long - 1) is condition(long - 1)


def test_defaults_that_all_objects_share_are_not_changed() -> None:
    bare = Compactor().compact(msgspec.json.decode(b"{}", type=QueueUnit))
    assert bare == QueueUnit()
    assert PodTemplate() == msgspec.json.decode(b"{}", type=PodTemplate)


def test_any_kind_can_be_compacted() -> None:
    pod = msgspec.json.decode(b'{"spec": {"nodeName": "node-1", "priority": 3}}', type=Pod)
    assert Compactor().compact(pod) == msgspec.convert(
        {"spec": {"nodeName": "node-1", "priority": 3}}, Pod
    )
    meta = ObjectMeta(name="x", deletion_timestamp=Timestamp("2026-11-01T10:00:00Z"))
    assert Compactor().compact(meta).deletion_timestamp == "2026-11-01T10:00:00Z"
    assert Compactor().compact(Condition(type="A")).type == "A"


def test_a_newer_version_reuses_unchanged_parts() -> None:
    shared = Compactor()
    meta: dict[str, Any] = {"uid": "7", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    before = shared.compact(decode("one", **meta, resourceVersion="1"))
    newer = decode("one", **{**meta, "annotations": {"c": "e"}}, resourceVersion="2")
    want = msgspec.json.decode(msgspec.json.encode(newer), type=QueueUnit)
    after = shared.compact(newer, before)
    assert after == want
    assert after.spec is before.spec
    assert after.status is before.status
    assert after.metadata.name is before.metadata.name
    assert after.metadata.labels is before.metadata.labels
    assert (after.metadata.resource_version, after.metadata.annotations) == ("2", {"c": "e"})


def test_a_part_may_be_added_and_removed() -> None:
    shared = Compactor()
    body = {"metadata": {"name": "one"}, "status": {"requeueState": {"requeueAt": "some time"}}}
    bare, whole = (shared.compact(msgspec.convert(each, QueueUnit)) for each in ({}, body))
    assert shared.compact(msgspec.convert(body, QueueUnit), bare) == whole
    assert shared.compact(QueueUnit(), whole) == bare


def test_an_object_may_become_one_of_another_type() -> None:
    """As a unit does whose demand becomes unreadable."""
    shared = Compactor()
    before = shared.compact(decode("one"))
    salvaged = SalvagedUnit(metadata=before.metadata, unreadable="it is odd")
    want = SalvagedUnit(metadata=before.metadata, unreadable="it is odd")
    assert shared.compact(salvaged, before) == want
    assert shared.compact(decode("one"), salvaged) == decode("one")


def test_changed_parts_are_compacted_as_in_a_new_object() -> None:
    shared = Compactor()
    before = shared.compact(decode("one"))
    other = shared.compact(decode("two", cpu="1"))
    changed = shared.compact(decode("one", cpu="1"), before)
    assert changed.spec.queue is before.spec.queue
    assert changed.spec.pod_set[0].template is other.spec.pod_set[0].template
    assert changed == decode("one", cpu="1")


def test_the_cache_decides_which_types_are_shared_whole() -> None:
    shared = Compactor((Container,))
    one, two = (decode(name) for name in ("one", "two"))
    for each in (one, two):
        shared.compact(each)
    first, second = (each.spec.pod_set[0].template for each in (one, two))
    assert first is not second
    assert first.spec.containers[0] is second.spec.containers[0]


def test_equal_texts_of_two_types_are_not_shared() -> None:
    shared = Compactor((PodStatus, PodSchedulingGate))
    bodies: tuple[Any, ...] = ({"spec": {"schedulingGates": [{}]}}, {"status": {"phase": ""}})
    compacted = [shared.compact(msgspec.convert(body, Pod)) for body in bodies]
    assert type(compacted[0].spec.scheduling_gates[0]) is PodSchedulingGate
    assert type(compacted[1].status) is PodStatus


class WithText(WireStruct, frozen=True):
    text: msgspec.Raw = msgspec.Raw(b"{}")
    name: str = ""


def test_a_part_kept_as_text_does_not_keep_the_whole_answer() -> None:
    shared = Compactor()
    answer = json.dumps({"text": {"a": 1}, "name": "one"}).encode()
    references = sys.getrefcount(answer)
    one = msgspec.json.decode(answer, type=WithText)
    assert sys.getrefcount(answer) > references
    shared.compact(one)
    assert sys.getrefcount(answer) == references
    assert json.loads(bytes(one.text)) == {"a": 1}
    two = msgspec.json.decode(answer.replace(b"one", b"two"), type=WithText)
    assert shared.compact(two, one).text is one.text
