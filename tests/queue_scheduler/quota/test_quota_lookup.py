from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_lookup import QuotaLookup
from queue_scheduler.quota.quota_spec import QuotaSpec
from shared_api.objects.meta import Timestamp
from shared_api.well_known_labels import DEFAULT_QUOTA, QUOTA_NAME, SYSTEM_QUOTA

LOOKUP = QuotaLookup(
    [
        QuotaSpec(name="team", namespace="somewhere", namespaces=("ns1", "team-ns")),
        QuotaSpec(name="team-ns", namespace="team-ns"),
        QuotaSpec(name="young", created=Timestamp("2026"), namespaces=("ns1", "ns2")),
        QuotaSpec(name=DEFAULT_QUOTA, namespaces=("ns3",)),
    ]
)


@pytest.mark.parametrize(
    ("label", "namespace", "want"),
    [
        pytest.param("team", "ns2", "team", id="the label first"),
        pytest.param("gone", "ns1", DEFAULT_QUOTA, id="a label that names no quota"),
        pytest.param(SYSTEM_QUOTA, "ns1", SYSTEM_QUOTA, id="a special quota by label"),
        pytest.param("", "team-ns", "team-ns", id="named like the namespace, before any list"),
        pytest.param("", "ns1", "team", id="listed twice: the oldest"),
        pytest.param("", "ns2", "young", id="listed"),
        pytest.param("", "somewhere", DEFAULT_QUOTA, id="the quota's own namespace is nothing"),
    ],
)
def test_quota_of_pod(label: str, namespace: str, want: str) -> None:
    assert LOOKUP.quota_of_pod({QUOTA_NAME: label}, namespace) == want


@pytest.mark.parametrize(("namespace", "want"), [("ns1", "team"), ("ns3", ""), ("other", "")])
def test_the_default_quota_never_counts_for_jobs(namespace: str, want: str) -> None:
    assert LOOKUP.quota_of_namespace(namespace) == want
