"""What adapters of kinds with a field `suspend` have in common. Pure.

The adapter of such a kind says where its templates stand (`update_patch`): a release that stamps
them changes them, and turns the switch off in the same patch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from queue_controllers.jobframework.generic_job import (
    ApiJob,
    JobPodSet,
    PodStamp,
    PrioritySource,
    priority_of_templates,
    updates_of_stamps,
)
from queue_controllers.jobframework.list_patches import merge_patches
from queue_controllers.jobframework.template_updates import TemplateUpdate
from shared_api.field_path import FieldPath, parse_path


class JobWithSpec(ApiJob, Protocol):
    """An object with a spec of its kind's own."""

    @property
    def spec(self) -> Any:  # noqa: ANN401 - the kind's own
        """What the user wants."""
        ...


JobWithSpecT = TypeVar("JobWithSpecT", bound=JobWithSpec)


class HeldBySuspend(ABC, Generic[JobWithSpecT]):
    """A `GenericJob` in part, and `TakesTemplateUpdates`: the switch, and how it is turned.

    And the priority, where only templates say it.
    """

    switch_path: ClassVar[FieldPath] = parse_path(".spec.suspend")

    def switch_of(self, job: JobWithSpecT) -> Any:  # noqa: ANN401 - the kind's own
        """Return the part of the spec that has `suspend`, and `managedBy` if the kind has it."""
        return job.spec

    def is_suspended(self, job: JobWithSpecT) -> bool:
        """Return whether the switch is on."""
        return self.switch_of(job).suspend is True

    def why_not_hold(self, job: JobWithSpecT) -> str:
        """Every job survives being suspended, unless its kind says otherwise."""
        return ""

    def suspend_patch(self, job: JobWithSpecT) -> dict[str, Any]:
        """Turn the switch on."""
        return self.switch_path.patch(value=True)

    def release_patch(self, job: JobWithSpecT, stamps: Mapping[str, PodStamp]) -> dict[str, Any]:
        """Turn the switch off and stamp the templates."""
        templates = self.update_patch(job, updates_of_stamps(stamps))
        return merge_patches(self.switch_path.patch(value=False), templates)

    @abstractmethod
    def pod_sets(self, job: JobWithSpecT) -> tuple[JobPodSet, ...]:
        """Return the pods that the job still needs."""

    def priority_of(self, job: JobWithSpecT) -> PrioritySource:
        """Those of the first template that has any, unless the kind says otherwise."""
        return priority_of_templates(each.template for each in self.pod_sets(job))

    @abstractmethod
    def update_patch(
        self, job: JobWithSpecT, updates: Mapping[str, TemplateUpdate]
    ) -> dict[str, Any]:
        """Return the merge patch that changes the templates; {} for none of the job's."""


class ManagedByField(HeldBySuspend[JobWithSpecT]):
    """`ManagedElsewhere` as well: beside `suspend` stands `managedBy`."""

    usual_manager: ClassVar[str]
    """What `managedBy` says when the usual controller owns the job's life."""

    def foreign_manager(self, job: JobWithSpecT) -> str:
        """Return `managedBy`, "" where it is absent or names the usual controller."""
        manager: str = self.switch_of(job).managed_by or ""
        return "" if manager == self.usual_manager else manager
