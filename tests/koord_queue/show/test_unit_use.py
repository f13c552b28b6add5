from __future__ import annotations

from typing import Any

import msgspec
import pytest

from koord_queue.show.unit_use import queue_of, top_units
from shared_api.objects.queue_unit import QueueUnit


def unit(name: str, phase: str = "Running", **resources: Any) -> QueueUnit:
    admissions = [{"name": "main", "replicas": 1, "resources": resources}]
    metadata = {"name": name, "namespace": "default"}
    status = {"phase": phase, "admissions": admissions}
    return msgspec.convert({"metadata": metadata, "status": status}, QueueUnit)


CPU = unit("cpu", cpu="30", gpu="1")
GPU = unit("gpu", cpu="10", gpu="7")
WAITS = msgspec.convert({"metadata": {"name": "waits"}, "status": {"phase": "Enqueued"}}, QueueUnit)


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        pytest.param(
            None,
            [("default/gpu", "gpu", 7, 0.875), ("default/cpu", "cpu", 30_000, 0.75)],
            id="by the largest share",
        ),
        pytest.param(
            "cpu",
            [("default/cpu", "cpu", 30_000, 0.75), ("default/gpu", "cpu", 10_000, 0.25)],
            id="by one resource",
        ),
        pytest.param("memory", [], id="by one that nobody holds"),
    ],
)
def test_the_unit_that_holds_most_comes_first(
    resource: str | None, want: list[tuple[str, str, int, float]]
) -> None:
    got = top_units([CPU, WAITS, GPU], resource)
    assert [(each.unit.metadata.key, each.resource, each.held, each.share) for each in got] == want


@pytest.mark.parametrize(
    ("placement", "want"),
    [
        pytest.param({"queue": "q", "quota": "t"}, "q", id="the one that it named"),
        pytest.param({"quota": "t"}, "t", id="the one of its quota"),
        pytest.param(None, "now", id="it was admitted before placements were written"),
    ],
)
def test_a_unit_is_in_the_queue_that_it_was_admitted_in(
    placement: dict[str, str] | None, want: str
) -> None:
    body = {"spec": {"queue": "now"}, "status": {"placement": placement}}
    assert queue_of(msgspec.convert(body, QueueUnit)) == want


def test_what_cannot_be_read_is_nothing() -> None:
    assert top_units([unit("bad", cpu="much")]) == []
