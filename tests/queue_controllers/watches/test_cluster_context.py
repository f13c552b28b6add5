"""The state of the cluster other than jobs."""

from __future__ import annotations

import msgspec
import pytest

from queue_controllers.watches.cluster_context import ClusterContextReader, ContextCaches
from shared_api.informer.indexed_store import IndexedStore
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta
from shared_api.objects.namespace import Namespace
from shared_api.objects.priority_class import PriorityClass


class Known:
    """The caches of a reader, and the reader's reports."""

    def __init__(self, *, checks_namespaces: bool = False) -> None:
        self.quotas: IndexedStore[ElasticQuota] = IndexedStore()
        self.namespaces: IndexedStore[Namespace] = IndexedStore()
        self.classes: IndexedStore[PriorityClass] = IndexedStore()
        self.reported: list[str] = []
        self.reader = ClusterContextReader(
            ContextCaches(
                quotas=self.quotas,
                namespaces=self.namespaces,
                priority_classes=self.classes,
            ),
            on_all_changed=lambda: self.reported.append("all"),
            on_namespace_changed=self.reported.append,
            checks_namespaces=checks_namespaces,
        )

    def put_quota(self, new: ElasticQuota) -> None:
        for old, now in self.quotas.put_observed(new):
            self.reader.on_quota(old, now)

    def put_class(self, new: PriorityClass) -> None:
        for old, now in self.classes.put_observed(new):
            self.reader.on_priority_class(old, now)

    def put_namespace(self, new: Namespace) -> None:
        for old, now in self.namespaces.put_observed(new):
            self.reader.on_namespace(old, now)


def quota(version: int, *, annotation: str = "") -> ElasticQuota:
    annotations = {"quota.scheduling.koordinator.sh/runtime": annotation}
    return ElasticQuota(
        metadata=ObjectMeta(
            name="team", namespace="team", resource_version=str(version), annotations=annotations
        )
    )


def test_a_new_quota_is_known_at_once_and_all_jobs_are_reconciled() -> None:
    known = Known()
    assert known.reader("team").quotas.quota_of_namespace("team") == ""
    known.put_quota(quota(1))
    assert known.reader("team").quotas.quota_of_namespace("team") == "team"
    assert known.reported == ["all"]


def test_writes_of_koord_scheduler_to_quotas_are_ignored() -> None:
    known = Known()
    known.put_quota(quota(1))
    before = known.reader("team").quotas
    known.put_quota(quota(2, annotation='{"cpu":"1"}'))
    assert known.reported == ["all"]
    assert known.reader("team").quotas is before


def test_priority_classes_and_the_smallest_default() -> None:
    known = Known()
    for name, value in (("high", 1000), ("low", 5)):
        known.put_class(
            PriorityClass(
                metadata=ObjectMeta(name=name, resource_version="1"),
                value=value,
                global_default=True,
            )
        )
    context = known.reader("team")
    assert context.priority_classes == {"high": 1000, "low": 5}
    assert context.default_priority == 5
    same = PriorityClass(
        metadata=ObjectMeta(name="low", resource_version="2"), value=5, global_default=True
    )
    known.put_class(same)
    assert known.reported == ["all", "all"]


def test_only_the_managed_label_of_a_namespace_counts() -> None:
    known = Known()
    plain = Namespace(metadata=ObjectMeta(name="team", resource_version="1"))
    known.put_namespace(plain)
    assert known.reported == ["team"], "only now its limit is known"
    labelled = ObjectMeta(name="team", resource_version="2", labels={"koord-queue/managed": "true"})
    known.put_namespace(Namespace(metadata=labelled))
    more = msgspec.structs.replace(
        labelled, resource_version="3", labels={**labelled.labels, "a": "b"}
    )
    known.put_namespace(Namespace(metadata=more))
    assert known.reported == ["team", "team"]
    assert known.reader("team").namespace_labels["koord-queue/managed"] == "true"
    assert known.reader("unknown").namespace_labels == {}


@pytest.mark.parametrize(
    ("text", "most", "unread"),
    [
        pytest.param(None, None, None, id="no ceiling"),
        pytest.param("7", 7, None, id="a number"),
        pytest.param("-99999999999", -(2**31), None, id="below 32 bits"),
        pytest.param("high", 0, "'high'", id="no number"),
        pytest.param("", 0, "''", id="empty"),
    ],
)
def test_an_invalid_ceiling_does_not_mean_none(
    text: str | None, most: int | None, unread: str | None
) -> None:
    known = Known()
    before = known.reader("team")
    assert (before.max_priority, before.unread_ceiling) == (0, ""), "nothing is known of it"
    annotations = {} if text is None else {"koord-queue/max-priority": text}
    meta = ObjectMeta(name="team", resource_version="1", annotations=annotations)
    known.put_namespace(Namespace(metadata=meta))
    now = known.reader("team")
    assert (now.max_priority, now.unread_ceiling) == (most, unread)


@pytest.mark.parametrize(
    ("checks", "reported", "want"),
    [
        pytest.param(True, ["team"], frozenset({"gold", "silver"}), id="listed"),
        pytest.param(False, ["team"], None, id="open"),
    ],
)
def test_which_quotas_a_namespace_lists(
    checks: bool, reported: list[str], want: frozenset[str] | None
) -> None:
    known = Known(checks_namespaces=checks)
    for version, listed in enumerate(("gold,silver", "silver, gold")):
        meta = ObjectMeta(
            name="team",
            resource_version=str(version),
            annotations={"koord-queue/available-quota-in-namespace": listed},
        )
        known.put_namespace(Namespace(metadata=meta))
    assert known.reader("team").available_quotas == want
    assert known.reported == reported
    assert known.reader("unknown").available_quotas == (frozenset() if checks else None)
