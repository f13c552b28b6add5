"""Which nodes are unreachable, and since when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.lost_pods.lost_nodes import WatchedNode, slim_node, unreachable_since
from shared_api.timestamps import rfc3339
from tests.queue_controllers.lost_pods.lost_pods_kit import node, tainted

EARLY, LATE = "2026-11-01T10:00:00Z", "2026-11-01T10:00:40Z"
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": EARLY}
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": EARLY}
NO_TIME = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}


def build(**fields: Any) -> WatchedNode:
    return msgspec.convert(node("n", **fields), WatchedNode)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({}, None, id="ready"),
        pytest.param({"taints": (tainted(EARLY),)}, None, id="ready, though it has the taint"),
        pytest.param({"ready": "Unknown", "since": EARLY}, None, id="not heard, without the taint"),
        pytest.param(
            {"ready": "False", "since": EARLY, "taints": (NOT_READY,)}, None, id="not ready"
        ),
        pytest.param(
            {"ready": "False", "since": EARLY, "taints": (tainted(EARLY),)},
            None,
            id="heard again: it says that it is not ready",
        ),
        pytest.param(
            {"ready": "Unknown", "since": EARLY, "taints": (CORDONED,)}, None, id="cordoned"
        ),
        pytest.param(
            {"ready": "Unknown", "since": EARLY, "taints": (tainted(LATE),)}, LATE, id="lost"
        ),
        pytest.param(
            {"ready": "Unknown", "since": LATE, "taints": (tainted(EARLY),)}, LATE, id="the latest"
        ),
        pytest.param({"ready": "Unknown", "since": EARLY, "taints": (NO_TIME,)}, EARLY, id="one"),
        pytest.param({"ready": "Unknown", "taints": (NO_TIME,)}, None, id="no time"),
        pytest.param(
            {"ready": "Unknown", "since": "soon", "taints": (tainted("late"),)}, None, id="no times"
        ),
    ],
)
def test_since_when_a_node_is_unreachable(fields: dict[str, Any], want: str | None) -> None:
    for each in (build(**fields), slim_node(build(**fields))):
        since = unreachable_since(each)
        assert (None if since is None else rfc3339(since)) == want


def test_a_node_without_conditions_is_not_judged() -> None:
    bare = msgspec.convert({"spec": {"taints": [tainted(EARLY)]}}, WatchedNode)
    assert unreachable_since(bare) is None
    assert unreachable_since(slim_node(bare)) is None


def test_nothing_else_of_a_node_is_kept() -> None:
    known = build(ready="Unknown", since=EARLY, taints=(CORDONED, tainted(LATE)))
    known.metadata.labels["zone"] = "a"
    kept = slim_node(known)
    assert [each.time_added for each in kept.spec.taints] == [LATE]
    assert kept.metadata.labels == {}
    assert kept.metadata.name == "n"
