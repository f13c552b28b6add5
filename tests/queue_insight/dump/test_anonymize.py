"""No name of a dump is left in it, in whatever field it stands."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest
from msgspec import inspect

from queue_insight.dump.anonymize import REMOVED, anonymize
from queue_insight.dump.codec import encode_dump
from queue_insight.dump.contents import Dump
from shared_api.well_known_labels import (
    ALL_KEYS,
    BACKFILL,
    GROUP,
    NODE_RESERVATION,
    PREEMPTIBLE,
    QUOTA_NAME,
    QUOTA_NAMESPACES,
    SUBMITTED_BY,
)

SECRET: Final = "zq17Secret"
OF_RESOURCES: Final = frozenset(
    (
        *("requests", "limits", "min", "max", "hard", "allocatable", "used", "resources"),
        *("request", "resource", "overhead", "charge", "amounts", "small", "maxima", "minimum"),
        *("np_minima", "np_used", "nodes", "taken", "counted", "runtimes", "pluginConfigs"),
        *("marks", "resourceWeights", "price"),
    )
)
"""Fields with names of resources, which stay, and with arguments that plugins have checked."""


_PLAIN: Final[dict[type[inspect.Type], object]] = {
    inspect.DateTimeType: "2026-11-01T00:00:00Z",
    inspect.IntType: 1,
    inspect.FloatType: 1,
    inspect.BoolType: True,
}


def plant(kind: inspect.Type, name: str, depth: int = 0) -> Any:
    """Return a value of a type with the secret in every text of it, and one entry in every list."""
    text = "cpu" if name in OF_RESOURCES else SECRET
    found: Any = _PLAIN.get(type(kind), text)
    match kind:
        case inspect.Metadata():
            found = plant(kind.type, name, depth)
        case inspect.StructType():
            found = {
                each.encode_name: plant(each.type, each.encode_name, depth + 1)
                for each in kind.fields
            }
            if kind.array_like:
                found = list(found.values())
        case inspect.NamedTupleType():
            found = [plant(each.type, name, depth + 1) for each in kind.fields]
        case inspect.DictType():
            found = {text: plant(kind.value_type, name, depth)}
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType():
            found = [plant(kind.item_type, name, depth + 1)] if depth < 9 else []
        case inspect.TupleType():
            found = [plant(each, name, depth) for each in kind.item_types]
        case inspect.UnionType():
            first = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
            found = plant(first, name, depth)
        case inspect.EnumType():
            found = next(iter(kind.cls)).value
        case _:
            pass
    return found


def planted() -> Dump:
    return msgspec.convert(plant(inspect.type_info(Dump), ""), Dump)


def with_labels(labels: dict[str, str]) -> Dump:
    """Return a dump with these labels and annotations at a node."""
    dump = planted()
    meta = msgspec.structs.replace(dump.nodes[0].metadata, labels=labels, annotations=labels)
    node = msgspec.structs.replace(dump.nodes[0], metadata=meta)
    return msgspec.structs.replace(dump, nodes=(node,))


def test_the_test_plants_a_name_in_every_kind_of_field() -> None:
    assert encode_dump(planted()).count(SECRET.encode()) > 150


@pytest.mark.parametrize("key", ["", "some key"])
def test_no_name_is_left(key: str) -> None:
    found = anonymize(planted(), key)
    assert found.anonymized
    assert SECRET.lower() not in encode_dump(found).decode().lower()


@pytest.mark.parametrize("value", [SECRET, f"a-{SECRET}", f'{{"a": "{SECRET}"}}', f'["{SECRET}"]'])
def test_no_name_is_left_in_a_label_of_this_program(value: str) -> None:
    found = anonymize(with_labels(dict.fromkeys(ALL_KEYS, value)))
    assert SECRET not in encode_dump(found).decode()


@pytest.mark.parametrize(("key", "value", "want"), [
    (PREEMPTIBLE, "false", "false"),
    (BACKFILL, "true", "true"),
    (NODE_RESERVATION, '{"reservedCPUs":"0-3"}', '{"reservedCPUs":"0-3"}'),
])  # fmt: skip
def test_values_that_decide_stay(key: str, value: str, want: str) -> None:
    assert anonymize(with_labels({key: value})).nodes[0].metadata.labels == {key: want}


@pytest.mark.parametrize("key", [QUOTA_NAME, QUOTA_NAMESPACES, GROUP, SUBMITTED_BY])
def test_a_name_that_is_a_number_is_renamed(key: str) -> None:
    (label,) = anonymize(with_labels({key: "4711"})).nodes[0].metadata.labels.values()
    assert "4711" not in label


def test_sentences_of_others_are_removed_and_whom_a_victim_leaves_for_is_renamed() -> None:
    dump = planted()
    unit = dump.units[0]
    condition = msgspec.structs.replace(
        unit.status.conditions[0], message="made to leave for ns/high (priority 9)"
    )
    other = msgspec.structs.replace(condition, message="node ip-10-0-0-1 is gone")
    status = msgspec.structs.replace(unit.status, conditions=(condition, other))
    found = anonymize(
        msgspec.structs.replace(dump, units=(msgspec.structs.replace(unit, status=status),))
    )
    first, second = (each.message for each in found.units[0].status.conditions)
    assert first.startswith("made to leave for ")
    assert "ns/high" not in first
    assert (first.endswith(f" {REMOVED}"), second) == (True, REMOVED)


def test_a_namespace_that_is_a_number_is_renamed() -> None:
    dump = planted()
    meta = msgspec.structs.replace(dump.units[0].metadata, namespace="4711")
    unit = msgspec.structs.replace(dump.units[0], metadata=meta)
    found = anonymize(msgspec.structs.replace(dump, units=(unit,)))
    assert "4711" not in found.units[0].metadata.namespace
