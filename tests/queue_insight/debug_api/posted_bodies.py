"""Bodies that a test posts to the routes of questions: sensible, strange, and no JSON at all."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from shared_api.testing.object_builders import job_body
from shared_api.well_known_labels import QUOTA_NAME

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
        ("requeue", st.booleans()),
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


@st.composite
def manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Return a Job, with some fields replaced by anything."""
    cpu = draw(st.sampled_from(("0", "1", "4", "1000", "-1", "x")))
    body: dict[str, Any] = job_body(
        draw(st.sampled_from(("next", "big", ""))),
        namespace=draw(st.sampled_from(("default", ""))),
        requests={"cpu": cpu},
        metadata={"labels": {QUOTA_NAME: draw(st.sampled_from(("team", "lab", "lost")))}},
        parallelism=draw(st.integers(-1, 5)),
    )
    priority = draw(st.sampled_from(("0", "99", "-5", "high")))
    body["metadata"]["annotations"] = {"scheduling.x-k8s.io/priority": priority}
    places = (body, body["metadata"], body["spec"], body["spec"]["template"])
    for into in draw(st.lists(st.sampled_from(places), max_size=2)):
        into[draw(st.sampled_from((*into, *FIELDS)))] = draw(values)
    return body


BODIES = {
    "/debug/what-if": questions.map(json.dumps).map(str.encode),
    "/debug/try": manifests().map(json.dumps).map(str.encode),
}
"""Sensible bodies by path."""


def bodies(path: str) -> st.SearchStrategy[bytes]:
    """Return bodies for a route of the contract."""
    strange = values.map(json.dumps).map(str.encode) | st.binary(max_size=50)
    return BODIES.get(path, strange) | strange
