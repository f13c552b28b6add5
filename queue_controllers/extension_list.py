"""The built-in adapters, and those that other packages register by entry points.

`--enabled-extensions` selects which of them serve.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, Final

from queue_controllers.extensions.app_wrapper import AppWrapperAdapter
from queue_controllers.extensions.argo_workflow import WorkflowAdapter
from queue_controllers.extensions.batch_job import BatchJobAdapter
from queue_controllers.extensions.job_set import JobSetAdapter
from queue_controllers.extensions.leader_worker_set import LeaderWorkerSetAdapter
from queue_controllers.extensions.mpi_job import MpiJobAdapter
from queue_controllers.extensions.pod import PodAdapter
from queue_controllers.extensions.pod_group import PodGroupAdapter
from queue_controllers.extensions.ray_cluster import RayClusterAdapter
from queue_controllers.extensions.ray_job import RayJobAdapter
from queue_controllers.extensions.ray_service import RayServiceAdapter
from queue_controllers.extensions.spark_application import SparkApplicationAdapter
from queue_controllers.extensions.stateful_set import StatefulSetAdapter
from queue_controllers.extensions.train_job import TrainJobAdapter
from queue_controllers.extensions.training_job import TRAINING_JOBS
from queue_controllers.jobframework.generic_job import GenericJob
from shared_api.program_flags import FlagError

EXTENSIONS: Final[tuple[GenericJob[Any], ...]] = (
    BatchJobAdapter(),
    JobSetAdapter(),
    WorkflowAdapter(),
    TrainJobAdapter(),
    AppWrapperAdapter(),
    *TRAINING_JOBS,
    MpiJobAdapter(),
    RayJobAdapter(),
    RayClusterAdapter(),
    RayServiceAdapter(),
    SparkApplicationAdapter(),
    PodAdapter(),
    PodGroupAdapter(),
    StatefulSetAdapter(),
    LeaderWorkerSetAdapter(),
)
"""The built-in adapters; others are found by the entry point group."""

ENTRY_POINT_GROUP: Final = "koord_queue.job_extensions"


def find_extensions() -> dict[str, GenericJob[Any]]:
    """Return all adapters by key: the built-in ones, and those of installed packages.

    Raises:
        FlagError: An installed one cannot be loaded, or its key is taken.
    """
    found: dict[str, GenericJob[Any]] = {each.kind.key: each for each in EXTENSIONS}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda each: each.name):
        try:
            loaded = entry.load()
            adapter: GenericJob[Any] = loaded() if isinstance(loaded, type) else loaded
            key = adapter.kind.key
        except (ImportError, AttributeError, TypeError) as error:
            raise FlagError(f"extension {entry.name} ({entry.value}): {error!r}") from error
        if key in found:
            raise FlagError(f"extension {entry.name} ({entry.value}): {key!r} is there already")
        found[key] = adapter
    return found
