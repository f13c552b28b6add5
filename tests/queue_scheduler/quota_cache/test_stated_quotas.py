"""The quotas as stated: which exist, which counts of several, and what follows from their names."""

from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_spec import QuotaSpec
from queue_scheduler.quota_cache.stated_quotas import StatedQuotas
from shared_api.objects.meta import Timestamp

OLD = QuotaSpec(name="team", namespace="ns-old", created=Timestamp("2024-01-01T00:00:00Z"))
NEW = QuotaSpec(
    name="team",
    namespace="ns-new",
    created=Timestamp("2025-01-01T00:00:00Z"),
    max={"cpu": 1000},
    namespaces=("theirs",),
)


@pytest.fixture
def stated() -> StatedQuotas:
    """Return two quotas with one name; the younger was stated first."""
    found = StatedQuotas()
    found.put(NEW)
    found.put(OLD)
    return found


def test_of_several_with_a_name_the_oldest_counts(stated: StatedQuotas) -> None:
    assert stated.oldest("team") is OLD
    assert stated.governed("team") == frozenset(), "that of the oldest"
    stated.drop(OLD)
    assert stated.oldest("team") is NEW
    assert stated.governed("team") == {"cpu"}
    assert stated.governed("unknown") == frozenset()


def test_names_are_sorted_and_those_of_koord_scheduler_itself_left_out(
    stated: StatedQuotas,
) -> None:
    stated.put(QuotaSpec(name="a"))
    stated.put(QuotaSpec(name="koordinator-system-quota"))
    assert stated.names() == ("a", "team")


def test_whose_a_namespace_is_follows_an_edit(stated: StatedQuotas) -> None:
    stated.drop(OLD)
    before = stated.by_name
    assert before.quota_of_namespace("theirs") == "team"
    assert stated.by_name is before, "kept until a quota changes"
    stated.put(QuotaSpec(name="team", namespace="ns-new"))
    assert stated.by_name.quota_of_namespace("theirs") != "team"


def test_the_same_quotas_again_are_no_change(stated: StatedQuotas) -> None:
    before = stated.by_name
    assert not stated.replace([OLD, NEW])
    assert stated.by_name is before
    assert stated.replace([OLD])
    assert [*stated] == [OLD]
    assert (stated.find("ns-old", "team"), stated.find("ns-new", "team")) == (OLD, None)


def test_a_copy_is_independent(stated: StatedQuotas) -> None:
    twin = stated.copy()
    twin.drop(OLD)
    assert stated.oldest("team") is OLD
    assert stated.governed("team") == frozenset()
    assert twin.governed("team") == {"cpu"}
