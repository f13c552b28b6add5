"""Which quota a namespace has, by koord-scheduler's own rule."""

from __future__ import annotations

import pytest

from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.objects.meta import ObjectMeta, Timestamp
from shared_api.quota_names import build_quota_names
from shared_api.well_known_labels import DEFAULT_QUOTA, QUOTA_NAME, QUOTA_NAMESPACES


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


@pytest.mark.parametrize(
    ("quotas", "want"),
    [
        pytest.param([], "", id="no quota, no name"),
        pytest.param([quota("team", "team")], "team", id="a quota in the namespace named like it"),
        pytest.param(
            [quota("team", "other")], "", id="the same name in another namespace is not it"
        ),
        pytest.param([quota("gold", "sys", '["team"]')], "gold", id="an annotation lists it"),
        pytest.param(
            [quota("gold", "sys", '["team"]'), quota("team", "team")],
            "team",
            id="its own quota comes before a list",
        ),
        pytest.param(
            [quota("b", "sys", '["team"]', "2026-02"), quota("c", "sys", '["team"]', "2026-01")],
            "c",
            id="of two lists the older quota's counts",
        ),
        pytest.param([quota("gold", "sys", "team")], "", id="an annotation that is no JSON"),
        pytest.param([quota("gold", "sys", '{"a": 1}')], "", id="an annotation that is no list"),
        pytest.param(
            [quota(DEFAULT_QUOTA, "sys", '["team"]')], "", id="the default quota never counts"
        ),
    ],
)
def test_quota_of_namespace(quotas: list[ElasticQuota], want: str) -> None:
    assert build_quota_names(quotas).quota_of_namespace("team") == want


def test_a_label_comes_before_the_namespace() -> None:
    names = build_quota_names([quota("team", "team")])
    assert names.quota_of({QUOTA_NAME: "gold"}, "team") == "gold"
    assert names.quota_of({"alibabacloud.com/quota-name": "silver"}, "team") == "silver"
    assert names.quota_of({}, "team") == "team"
    assert names.known == {"team"}
