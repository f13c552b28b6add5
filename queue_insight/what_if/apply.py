"""Applies all edits of a question to an engine, in their order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final

from queue_insight.what_if.cost import check_cost
from queue_insight.what_if.edit import AppliedEdit, Edit, EditError, FieldError
from queue_insight.what_if.json_patches import OPERATIONS
from queue_insight.what_if.object_edits import edit_elastic_quota, edit_node, edit_queue, edit_quota
from queue_insight.what_if.policy_edits import edit_policy
from queue_insight.what_if.reservation_edits import edit_reservation
from queue_insight.what_if.settings_edits import SETTINGS, edit_settings
from queue_insight.what_if.unit_edits import edit_unit
from queue_scheduler.engine.engine import Engine
from shared_api.objects.elastic_quota_tree import ElasticQuotaTree
from shared_api.objects.resource_quota import ResourceQuota

_Apply = Callable[[Engine, Edit, datetime], AppliedEdit]


def _at_any_time(apply: Callable[[Engine, Edit], AppliedEdit]) -> _Apply:
    return lambda engine, edit, _: apply(engine, edit)


_KINDS: Final[Mapping[str, tuple[str, _Apply]]] = {
    "Queue": ("scheduling.x-k8s.io/v1alpha1", _at_any_time(edit_queue)),
    "ElasticQuota": ("scheduling.sigs.k8s.io/v1alpha1", edit_elastic_quota),
    "ElasticQuotaTree": ("scheduling.sigs.k8s.io/v1beta1", edit_quota(ElasticQuotaTree)),
    "ResourceQuota": ("v1", edit_quota(ResourceQuota)),
    "QuotaPolicy": ("scheduling.x-k8s.io/v1alpha1", edit_policy),
    "QueueReservation": ("scheduling.x-k8s.io/v1alpha1", edit_reservation),
    "Node": ("v1", _at_any_time(edit_node)),
    SETTINGS: ("", _at_any_time(edit_settings)),
}
_UNIT: Final = "QueueUnit"
KINDS: Final = (*_KINDS, _UNIT)
"""What can be edited."""


def apply_edits(engine: Engine, edits: Iterable[Edit], wall: datetime) -> tuple[AppliedEdit, ...]:
    """Apply edits to an engine, each on top of those before it; return what became of each.

    Args:
        engine: A fork.
        edits: The edits.
        wall: The time at which they are made.

    Raises:
        EditError: An edit is wrong, or cannot be tried, or all together cost too much: then none
            is tried.
    """
    edits = tuple(edits)
    check_cost(engine, edits)
    applied = []
    for number, edit in enumerate(edits):
        try:
            applied.append(_apply(engine, edit, wall))
        except FieldError as error:
            raise EditError(number, error) from error
    return tuple(applied)


def _apply(engine: Engine, edit: Edit, wall: datetime) -> AppliedEdit:
    if edit.kind == "PriorityClass":
        text = "units have their priority as a number: patch spec.priority of a QueueUnit"
        raise FieldError("kind", text)
    if edit.kind not in KINDS:
        raise FieldError("kind", f"must be one of {', '.join(KINDS)}")
    if edit.operations:
        _check_alone(edit, OPERATIONS, "QuotaPolicy")
    if edit.copies:
        _check_alone(edit, "copies", "Node")
    if edit.end:
        _check_alone(edit, "end", _UNIT)
    if edit.requeue:
        _check_alone(edit, "requeue", _UNIT)
    if edit.kind == _UNIT:
        _check_version(edit, _KINDS["Queue"][0])
        return edit_unit(engine, edit, wall)
    version, apply = _KINDS[edit.kind]
    _check_version(edit, version)
    return apply(engine, edit, wall)


def _check_alone(edit: Edit, field: str, kind: str) -> None:
    if edit.kind != kind:
        raise FieldError(field, f"is for a {kind}")
    if isinstance(edit.patch, dict) or edit.patch is None:
        raise FieldError("patch", f"cannot stand beside {field}")


def _check_version(edit: Edit, version: str) -> None:
    if edit.api_version not in {"", version}:
        raise FieldError("apiVersion", f"must be {version!r} for a {edit.kind}")
