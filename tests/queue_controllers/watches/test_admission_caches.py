"""Objects that pod admission depends on: caches of them, their changes, and missing rights."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from queue_controllers.watches.admission_caches import (
    BY_NAMESPACE,
    AdmissionCaches,
    AdmissionInformers,
    namespace_index,
    slim_account,
)
from shared_api.client.resource_types import OnlyMetadata
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.limit_range import LimitRange
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.runtime_class import RuntimeClass

KINDS: Final = ("limitranges", "runtimeclasses", "serviceaccounts", "priorityclasses")


class Informer:
    """A `SharedInformer` whose state the test sets."""

    def __init__(self, store: IndexedStore[Any]) -> None:
        self.store = store
        self.synced, self.forbidden = True, False

    def add_handler(self, on_change: Any) -> None:
        self.on_change = on_change

    def has_synced(self) -> bool:
        return self.synced

    def is_forbidden(self) -> bool:
        return self.forbidden

    def check_synced(self) -> tuple[bool, str]:
        return self.synced, "as it is"

    def put(self, new: Any) -> None:
        for old, now in self.store.put_observed(new):
            self.on_change(old, now)


class Known:
    """Caches over such informers, and their reports."""

    def __init__(self) -> None:
        ranges: IndexedStore[LimitRange] = IndexedStore(indexes={BY_NAMESPACE: namespace_index})
        stores = (ranges, IndexedStore[Any](), IndexedStore[Any](), IndexedStore[Any]())
        self.by_plural = dict(zip(KINDS, map(Informer, stores), strict=True))
        of: Any = self.by_plural
        self.reported: list[tuple[str, str]] = []
        self.caches = AdmissionCaches(
            AdmissionInformers(
                limit_ranges=of["limitranges"],
                runtime_classes=of["runtimeclasses"],
                service_accounts=of["serviceaccounts"],
                priority_classes=of["priorityclasses"],
            ),
            on_demand_changed=lambda namespace: self.reported.append(("demand", namespace)),
            on_names_changed=lambda namespace: self.reported.append(("names", namespace)),
        )


def meta(name: str, namespace: str = "", version: str = "1") -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, resource_version=version)


def limit_range(name: str, version: str = "1", **item: Any) -> LimitRange:
    spec = {"limits": [{"type": "Container", **item}]}
    found = msgspec.convert({"spec": spec}, LimitRange)
    return msgspec.structs.replace(found, metadata=meta(name, "team", version))


def test_what_counts_in_a_namespace() -> None:
    known = Known()
    for name in ("b", "a"):
        known.by_plural["limitranges"].put(limit_range(name))
    known.by_plural["runtimeclasses"].put(RuntimeClass(metadata=meta("kata")))
    known.by_plural["serviceaccounts"].put(OnlyMetadata(metadata=meta("bot", "team")))
    found, other = known.caches("team"), known.caches("other")
    assert [each.metadata.name for each in found.limit_ranges] == ["a", "b"], "always in one order"
    assert other.limit_ranges == ()
    assert found.runtime_classes is not None
    assert (list(found.runtime_classes), len(found.runtime_classes)) == (["kata"], 1)
    assert found.runtime_classes["kata"].metadata.name == "kata"
    assert found.service_accounts is not None
    assert "bot" in found.service_accounts
    assert other.service_accounts is not None
    assert "bot" not in other.service_accounts
    assert found.priority_classes is not None
    assert "gold" not in found.priority_classes


def test_relevant_changes_are_reported_and_others_are_not() -> None:
    known = Known()
    ranges, runtimes = known.by_plural["limitranges"], known.by_plural["runtimeclasses"]
    ranges.put(limit_range("r", "1", max={"cpu": "1"}))
    ranges.put(limit_range("r", "2", max={"cpu": "1"}))
    assert known.reported == [("demand", "team")]
    ranges.put(limit_range("r", "3", max={"cpu": "2"}))
    runtimes.put(RuntimeClass(metadata=meta("kata")))
    runtimes.put(RuntimeClass(metadata=meta("kata", version="2")))
    assert known.reported[1:] == [("demand", "team"), ("demand", "")]


@pytest.mark.parametrize(
    ("name", "synced", "want"),
    [
        pytest.param("bot", True, [("names", "team")], id="one that jobs may name"),
        pytest.param("default", True, [], id="that of every namespace"),
        pytest.param("bot", False, [], id="one of the first list"),
    ],
)
def test_a_new_account_is_reported(name: str, synced: bool, want: list[tuple[str, str]]) -> None:
    known = Known()
    accounts = known.by_plural["serviceaccounts"]
    accounts.synced = synced
    accounts.put(OnlyMetadata(metadata=meta(name, "team")))
    accounts.put(OnlyMetadata(metadata=meta(name, "team", "2")))
    assert known.reported == want


@pytest.mark.parametrize("plural", KINDS)
def test_objects_that_may_not_be_read_are_unknown_and_not_waited_for(plural: str) -> None:
    known = Known()
    known.by_plural["limitranges"].put(limit_range("r"))
    informer = known.by_plural[plural]
    informer.synced = False
    assert not known.caches.are_ready()
    assert known.caches.ready_checks()[f"{plural}-synced"]() == (False, "as it is")
    informer.forbidden = True
    assert known.caches.are_ready()
    is_ready, detail = known.caches.ready_checks()[f"{plural}-synced"]()
    assert is_ready
    assert detail == "as it is; jobs go on without what it would say"
    assert len(known.caches.readable()) == len(KINDS) - 1
    found = known.caches("team")
    unknown = {
        "runtimeclasses": found.runtime_classes,
        "serviceaccounts": found.service_accounts,
        "priorityclasses": found.priority_classes,
    }
    assert [each for each, what in unknown.items() if what is None] == (
        [] if plural == "limitranges" else [plural]
    )
    assert len(found.limit_ranges) == 1, "what was read stays, or too much would be admitted"


def test_an_account_is_kept_as_a_name() -> None:
    full = ObjectMeta(name="bot", namespace="team", labels={"a": "b"})
    assert slim_account(OnlyMetadata(metadata=full)).metadata.labels == {}
