"""The quota of a namespace and of a pod, by koord-scheduler's rule."""

from __future__ import annotations

import pytest

from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.quota_names import QuotaNames, build_quota_names, read_named_quota
from shared_api.well_known_labels import (
    DEFAULT_QUOTA,
    QUOTA_NAME,
    QUOTA_NAMESPACES,
    SYSTEM_QUOTA,
)


def quota(
    name: str, namespace: str, namespaces: str = "", created: str = "2026-01-01"
) -> ElasticQuota:
    annotations = {QUOTA_NAMESPACES: namespaces} if namespaces else {}
    return ElasticQuota(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            annotations=annotations,
            creation_timestamp=Timestamp(created),
        )
    )


def names_of(*quotas: ElasticQuota) -> QuotaNames:
    return build_quota_names(map(read_named_quota, quotas))


@pytest.mark.parametrize(
    ("quotas", "want"),
    [
        pytest.param([], "", id="no quota"),
        pytest.param([quota("team", "team")], "team", id="a quota in the namespace with its name"),
        pytest.param([quota("team", "other")], "", id="the same name in another namespace"),
        pytest.param([quota("gold", "sys", '["team"]')], "gold", id="an annotation lists it"),
        pytest.param(
            [quota("gold", "sys", '["team"]'), quota("team", "team")],
            "team",
            id="its own quota before a list",
        ),
        pytest.param(
            [quota("b", "sys", '["team"]', "2026-02"), quota("c", "sys", '["team"]', "2026-01")],
            "c",
            id="the list of the older quota",
        ),
        pytest.param([quota("gold", "sys", "team")], "", id="an annotation that is not JSON"),
        pytest.param([quota("gold", "sys", '{"a": 1}')], "", id="an annotation that is not a list"),
        pytest.param(
            [quota(DEFAULT_QUOTA, "sys", '["team"]')], "", id="the default quota never counts"
        ),
    ],
)
def test_quota_of_namespace(quotas: list[ElasticQuota], want: str) -> None:
    assert names_of(*quotas).quota_of_namespace("team") == want


def test_a_label_takes_precedence_over_the_namespace() -> None:
    names = names_of(quota("team", "team"))
    assert names.quota_of({QUOTA_NAME: "gold"}, "team") == "gold"
    assert names.quota_of({"alibabacloud.com/quota-name": "silver"}, "team") == "silver"
    assert names.quota_of({}, "team") == "team"
    assert names.known == {"team"}


@pytest.mark.parametrize(
    ("label", "namespace", "want"),
    [
        pytest.param("team", "ns2", "team", id="the label first"),
        pytest.param("gone", "ns1", DEFAULT_QUOTA, id="a label that names no quota"),
        pytest.param(SYSTEM_QUOTA, "ns1", SYSTEM_QUOTA, id="a special quota by label"),
        pytest.param("", "team-ns", "team-ns", id="the name of the namespace, before any list"),
        pytest.param("", "ns1", "team", id="listed twice: the oldest"),
        pytest.param("", "ns2", "young", id="listed"),
        pytest.param("", "ns3", DEFAULT_QUOTA, id="a list of the default quota does not count"),
        pytest.param("", "somewhere", DEFAULT_QUOTA, id="the quota's own namespace does not count"),
    ],
)
def test_quota_of_pod(label: str, namespace: str, want: str) -> None:
    names = names_of(
        quota("young", "sys", '["ns1", "ns2"]', "2026-02"),
        quota("team", "somewhere", '["ns1", "team-ns"]'),
        quota("team-ns", "team-ns"),
        quota(DEFAULT_QUOTA, "sys", '["ns3"]'),
    )
    assert names.quota_of_pod({QUOTA_NAME: label}, namespace) == want


@pytest.mark.parametrize(
    ("namespace", "listed", "want"),
    [
        pytest.param("sys", (), True, id="the quota's own namespace"),
        pytest.param("team", (), True, id="the quota lists it"),
        pytest.param("other", (), False, id="neither lists the other"),
        pytest.param("other", ("silver", "gold"), True, id="its annotation lists the quota"),
        pytest.param("other", ("*",), True, id="its annotation lists all"),
        pytest.param("other", ("silver", "golden"), False, id="its annotation lists others"),
        pytest.param("late", (), False, id="a younger quota of that name lists it"),
    ],
)
def test_which_namespace_may_name_a_quota(
    namespace: str, listed: tuple[str, ...], want: bool
) -> None:
    names = names_of(
        quota("gold", "sys", '["team"]', "2026-01"), quota("gold", "late", '["late"]', "2026-02")
    )
    assert names.may_name("gold", namespace, listed) is want
    assert names.may_name("no-such", namespace, listed) is ("*" in listed)
