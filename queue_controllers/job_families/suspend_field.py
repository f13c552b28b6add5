"""The fields `suspend` and `managedBy`, for adapters of kinds that have them. Pure.

An adapter takes over the bound methods of these values as its own (they stay bound to the value),
so that its class shows all that it answers::

    class WidgetAdapter:
        is_suspended = SPEC_SUSPEND.is_suspended
        suspend_patch = SPEC_SUSPEND.suspend_patch
        release_patch = release_by_spec_suspend  # no bound method: it calls `update_patch`
        foreign_manager = ManagedByField("example.com/widget-controller").foreign_manager
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.generic_job import (
    ApiJob,
    PodStamp,
    TakesTemplateUpdates,
    updates_of_stamps,
)
from queue_controllers.jobframework.list_patches import combine_patches
from shared_api.field_path import FieldPath, parse_path

_SPEC: Final = attrgetter("spec")


class SuspendField(msgspec.Struct, frozen=True):
    """A field `suspend`: how it is read and set."""

    path: FieldPath
    parent_of: Callable[[Any], Any] = _SPEC
    """Returns the part of a job that has the field."""

    def is_suspended(self, job: ApiJob) -> bool:
        """Return whether the field is on."""
        return self.parent_of(job).suspend is True

    def why_not_suspendable(self, job: ApiJob) -> str:
        """Return "": every job of a kind with the field survives being suspended.

        An adapter whose operator refuses to suspend some jobs has a method of its own.
        """
        return ""

    def suspend_patch(self, job: ApiJob) -> dict[str, Any]:
        """Return the merge patch that turns the field on."""
        return self.path.patch(value=True)

    def release_patch(
        self, adapter: TakesTemplateUpdates, job: ApiJob, stamps: Mapping[str, PodStamp]
    ) -> dict[str, Any]:
        """Return the merge patch that turns the field off, and adds labels to the templates."""
        templates = adapter.update_patch(job, updates_of_stamps(stamps))
        return combine_patches(self.path.patch(value=False), templates)


SPEC_SUSPEND: Final = SuspendField(parse_path(".spec.suspend"))
"""The field of most kinds."""


def release_by_spec_suspend(
    adapter: TakesTemplateUpdates, job: ApiJob, stamps: Mapping[str, PodStamp]
) -> dict[str, Any]:
    """Return the patch that releases a job with `SPEC_SUSPEND`; the method of its adapter."""
    return SPEC_SUSPEND.release_patch(adapter, job, stamps)


class ManagedByField(msgspec.Struct, frozen=True):
    """A field `managedBy`, which may give a job to another controller."""

    usual: str
    """Its value when the usual controller manages the job."""
    parent_of: Callable[[Any], Any] = _SPEC
    """Returns the part of a job that has the field."""

    def foreign_manager(self, job: ApiJob) -> str:
        """Return the field's value, "" if it is absent or names the usual controller."""
        manager: str = self.parent_of(job).managed_by or ""
        return "" if manager == self.usual else manager
