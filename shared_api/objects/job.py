"""batch/v1 Job, as far as it is read."""

from __future__ import annotations

from shared_api.objects.meta import Condition, ObjectMeta, Timestamp, WireStruct
from shared_api.objects.pod import PodTemplate


class JobSpec(WireStruct, frozen=True):
    """`spec`; absent `parallelism` is 1, absent `completions` is the parallelism."""

    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    managed_by: str | None = None
    template: PodTemplate = PodTemplate()


class JobStatus(WireStruct, frozen=True):
    """`status`."""

    conditions: tuple[Condition, ...] = ()
    start_time: Timestamp | None = None
    completion_time: Timestamp | None = None
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""


class Job(WireStruct, frozen=True):
    """A batch/v1 Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
