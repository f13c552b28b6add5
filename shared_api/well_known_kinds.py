"""Kinds of jobs that both programs know by name, whether the cluster serves them or not."""

from __future__ import annotations

from typing import Final

KNOWN_JOB_KINDS: Final = frozenset(
    (
        *("Job", "JobSet", "TrainJob", "Workflow", "AppWrapper", "SparkApplication"),
        *("TFJob", "PyTorchJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"),
        *("RayJob", "RayCluster", "RayService"),
        *("Pod", "PodGroup", "ReplicaSet", "Deployment", "StatefulSet", "LeaderWorkerSet"),
    )
)
"""Kinds that own the objects they create: a job owned by one is nested, enabled or not."""
