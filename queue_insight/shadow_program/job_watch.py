"""The jobs of the cluster: the one place that uses the code of the other program."""

from __future__ import annotations

from queue_controllers.observed.job_reading import ObservedJob
from queue_controllers.observed.job_watch import JobName, JobWatch

__all__ = ["JobName", "JobWatch", "ObservedJob"]
