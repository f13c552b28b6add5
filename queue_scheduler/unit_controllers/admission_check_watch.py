"""Watches Kueue's AdmissionChecks in the version that the cluster serves, if it serves any."""

from __future__ import annotations

from collections.abc import Callable

from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.client.discovery import served_version
from shared_api.client.resource_client import ResourceClient, ResourceType
from shared_api.client.resource_types import ADMISSION_CHECK_VERSIONS
from shared_api.informer.kind_watch import KindWatch
from shared_api.informer.shared_informer import SharedInformer
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.process.clock import Clock
from shared_api.process.loop_thread import Step


def watch_admission_checks(
    client: ResourceClient,
    make_informer: Callable[[ResourceType[AdmissionCheck]], SharedInformer[AdmissionCheck]],
    start: Callable[[SharedInformer[AdmissionCheck]], None],
    clock: Clock,
) -> KindWatch[AdmissionCheck]:
    """Return the watch of the kind. Few clusters serve it, so that it is missing is no warning.

    A Queue that lists checks says in its condition what is missing.
    """
    return KindWatch(
        "AdmissionCheck (kueue.x-k8s.io)",
        find=lambda: served_version(client, ADMISSION_CHECK_VERSIONS),
        make_informer=make_informer,
        clock=clock,
        start=start,
        is_expected=False,
    )


def follow_kind(watch: KindWatch[AdmissionCheck], shared: SharedEngine) -> Step:
    """Return the step that looks for the kind, and reports to the engine whether it is served."""

    def step() -> float:
        rest = watch.step()
        if watch.is_ready():
            shared.tell(Engine.on_admission_checks_served, are_served=watch.is_served())
        return rest

    return step
