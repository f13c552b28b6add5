"""Bodies that a test posts to the routes of questions: sensible, strange, and no JSON at all."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

KINDS = (
    "Queue", "QueueUnit", "ElasticQuota", "ElasticQuotaTree", "ResourceQuota", "Node",
    "SchedulerSettings", "PriorityClass",
)  # fmt: skip
FIELDS = (
    "spec", "metadata", "status", "annotations", "labels", "priority", "queue", "podSet", "max",
    "min", "cpu", "queuePolicy", "backfill", "active", "hard", "root", "allocatable", "request",
    "koord-queue/stop-policy", "name", "count", "template", "consumerRef", "preemption",
)  # fmt: skip
VALUES = (None, True, 0, -1, 2**40, 1.5, "", "1", "Hold", "FIFO", "\ud800", "x" * 400)

leaves = st.sampled_from(VALUES) | st.text(max_size=5) | st.integers() | st.floats()
values = st.recursive(
    leaves,
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), below, max_size=4)
    ),
    max_leaves=8,
)
patches = st.none() | st.dictionaries(st.sampled_from(FIELDS), values, max_size=3)


@st.composite
def edits(draw: st.DrawFn) -> dict[str, Any]:
    edit: dict[str, Any] = {
        "kind": draw(st.sampled_from(KINDS)),
        "name": draw(st.sampled_from(("team", "a", "run", "big", "n1", ""))),
        "namespace": draw(st.sampled_from(("default", "", "koord-queue"))),
    }
    for name, value in (
        ("patch", patches), ("copies", st.integers(-1, 9)), ("end", st.booleans()),
        ("apiVersion", st.sampled_from(("v1", "scheduling.x-k8s.io/v1alpha1"))),
        ("other", values),
    ):  # fmt: skip
        if draw(st.integers(0, 3)) > (0 if name == "patch" else 2):
            edit[name] = draw(value)
    return edit


questions = st.fixed_dictionaries(
    {"edits": st.lists(edits(), max_size=3)},
    optional={"horizonSeconds": st.integers(-1, 10**9), "seed": st.integers()},
)
BODIES = {"/debug/what-if": questions.map(json.dumps).map(str.encode)}
"""Sensible bodies by path."""


def bodies(path: str) -> st.SearchStrategy[bytes]:
    """Return bodies for a route of the contract."""
    strange = values.map(json.dumps).map(str.encode) | st.binary(max_size=50)
    return BODIES.get(path, strange) | strange
