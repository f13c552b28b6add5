from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_queue.answers.quota_trees import find, quotas_of_objects, read_quota_page, walk
from koord_queue.answers.quotas import Quota
from shared_api.objects.elastic_quota import ElasticQuota
from shared_api.well_known_labels import QUOTA_PARENT


def quota(name: str, parent: str = "", created: str = "2026", **spec: Any) -> ElasticQuota:
    metadata = {"name": name, "namespace": "n", "creationTimestamp": created}
    labels = {"labels": {QUOTA_PARENT: parent}} if parent else {}
    status = {"used": {"cpu": 1}}
    body = {"metadata": metadata | labels, "spec": spec, "status": status}
    return msgspec.convert(body, ElasticQuota)


def paths(roots: tuple[Quota, ...]) -> list[str]:
    return ["/".join((*above, each.name)) for each, above in walk(roots)]


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param(
            [quota("b", "a"), quota("a"), quota("c", "b")], ["a", "a/b", "a/b/c"], id="a tree"
        ),
        pytest.param([quota("b", "gone")], ["b"], id="a parent that is missing"),
        pytest.param([quota("b", "c"), quota("c", "b")], ["b", "b/c"], id="a cycle"),
        pytest.param([quota("b", "b")], ["b"], id="its own parent"),
        pytest.param(
            [quota("b", "a", created="2026"), quota("b", created="2025"), quota("a")],
            ["a", "b"],
            id="of two of one name the older one counts",
        ),
    ],
)
def test_objects_make_a_tree(objects: list[ElasticQuota], want: list[str]) -> None:
    assert paths(quotas_of_objects(objects)) == want


def test_objects_say_what_is_used_and_allowed() -> None:
    [got] = quotas_of_objects([quota("a", min={"cpu": 1}, max={"cpu": "2"})])
    assert (got.min, got.max, got.used) == ({"cpu": "1"}, {"cpu": "2"}, {"cpu": "1"})
    assert (got.scaled_min, got.charged, got.namespace) == (None, None, "n")


def test_a_page_of_the_scheduler_is_read() -> None:
    child = {"name": "b", "scaledMin": {"cpu": "1"}, "charged": {}, "isParent": False}
    page = {"leader": True, "items": [{"name": "a", "children": [child]}]}
    roots = read_quota_page(msgspec.json.encode(page))
    assert paths(roots) == ["a", "a/b"]
    found = find(roots, "b")
    assert found is not None
    assert (found.scaled_min, found.charged) == ({"cpu": "1"}, {})
    assert find(roots, "c") is None
