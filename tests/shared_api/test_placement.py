"""Where an admission is charged, whatever is written into the unit later."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared_api.objects.meta import ObjectMeta
from shared_api.objects.queue_unit import Placement, QueueUnit, QueueUnitSpec, QueueUnitStatus
from shared_api.placement import as_admitted, placement_body
from shared_api.well_known_labels import PREEMPTIBLE, QUEUE_NAME, QUOTA_NAME, TREE_QUOTA_NAME

IN_A = Placement(quota="a", queue="a", labels={QUOTA_NAME: "a"})


def unit(
    phase: str = "Running",
    placement: Placement | None = IN_A,
    queue: str = "a",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> QueueUnit:
    named: dict[str, str] = {QUOTA_NAME: "a"}
    return QueueUnit(
        metadata=ObjectMeta(
            name="u",
            namespace="ns",
            labels={**named, **(labels or {})},
            annotations=annotations or {},
        ),
        spec=QueueUnitSpec(queue=queue),
        status=QueueUnitStatus(phase=phase, placement=placement),
    )


OWN: dict[str, str] = {"mine": "x"}


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(unit(labels={QUOTA_NAME: "b"}), id="another quota"),
        pytest.param(unit(labels={TREE_QUOTA_NAME: "b"}), id="another node of a tree"),
        pytest.param(unit(labels={PREEMPTIBLE: "false"}), id="not preemptible"),
        pytest.param(unit(queue="b"), id="another queue"),
        pytest.param(unit(labels={QUEUE_NAME: "b"}), id="another queue by a label"),
        pytest.param(unit(annotations={QUEUE_NAME: "b"}), id="another queue by an annotation"),
        pytest.param(unit(labels={"kube-queue/queue-name": "b"}), id="by its older spelling"),
    ],
)
def test_a_charged_unit_is_read_as_it_was_admitted(edited: QueueUnit) -> None:
    got = as_admitted(edited)
    assert (got.metadata.labels, got.spec.queue) == ({QUOTA_NAME: "a"}, "a")
    assert got.status == edited.status
    assert not got.metadata.annotations
    freed = replace(edited, status=replace(edited.status, phase="Enqueued"))
    assert as_admitted(freed) is freed, "in the queue again, its own fields count"


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(unit(), id="not edited"),
        pytest.param(unit(labels=OWN), id="other labels of the user"),
        pytest.param(unit(placement=None, labels={QUOTA_NAME: "b"}), id="of an older version"),
        pytest.param(unit("Enqueued", labels={QUOTA_NAME: "b"}), id="it waits"),
        pytest.param(unit("Succeed", labels={QUOTA_NAME: "b"}), id="finished"),
    ],
)
def test_any_other_unit_is_read_as_it_is(of: QueueUnit) -> None:
    assert as_admitted(of) is of


def test_a_written_placement_is_read_back() -> None:
    of = unit("Enqueued", placement=None, labels={**OWN, PREEMPTIBLE: "false"}, queue="q")
    body = placement_body(of, "a")
    assert body == {"quota": "a", "queue": "q", "labels": {QUOTA_NAME: "a", PREEMPTIBLE: "false"}}


def test_labels_of_an_earlier_placement_are_removed() -> None:
    left = replace(IN_A, labels={PREEMPTIBLE: "false", QUOTA_NAME: "b"})
    body = placement_body(unit("Enqueued", placement=left), "a")
    assert body["labels"] == {PREEMPTIBLE: None, QUOTA_NAME: "a"}
