"""Records which quota an admission is charged to, in the status, which users cannot write. Pure.

Users who may edit units may change their labels and spec. The labels and the queue that decided an
admission are therefore written with it (`status.placement`), and count until the unit is released:
after a restart the unit is charged to the same quota. A unit that was admitted by an older version
has no such record, and is charged to the quota that its labels name.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import CHARGED_PHASES, phase_of
from shared_api.well_known_labels import DECIDING_LABELS, QUEUE_NAME, read_queue_name, spellings


def placement_body(unit: QueueUnit, quota: str) -> dict[str, Any]:
    """Return `status.placement` as JSON, for the write that charges a unit to this quota.

    It is a merge patch: labels of an earlier placement that no longer count are set to null.
    """
    labels: dict[str, str | None] = {}
    if unit.status.placement is not None:
        labels.update(dict.fromkeys(unit.status.placement.labels))
    labels |= _deciding(unit)
    return {"quota": quota, "queue": _named_queue(unit), "labels": labels}


def as_admitted(unit: QueueUnit) -> QueueUnit:
    """Return an admitted unit with the labels and the queue that it was admitted with.

    Any other unit, and one that was not edited since, is returned unchanged.
    """
    placement = unit.status.placement
    if placement is None or phase_of(unit) not in CHARGED_PHASES:
        return unit
    if _deciding(unit) == placement.labels and _named_queue(unit) == placement.queue:
        return unit
    meta, queue_keys = unit.metadata, spellings(QUEUE_NAME)
    labels = {
        key: value
        for key, value in meta.labels.items()
        if key not in DECIDING_LABELS and key not in queue_keys
    }
    annotations = {key: text for key, text in meta.annotations.items() if key not in queue_keys}
    meta = replace(meta, labels={**labels, **placement.labels}, annotations=annotations)
    return replace(unit, metadata=meta, spec=replace(unit.spec, queue=placement.queue))


def _deciding(unit: QueueUnit) -> dict[str, str]:
    labels = unit.metadata.labels
    return {key: labels[key] for key in DECIDING_LABELS if key in labels}


def _named_queue(unit: QueueUnit) -> str:
    meta = unit.metadata
    return read_queue_name(meta.labels, meta.annotations) or unit.spec.queue
