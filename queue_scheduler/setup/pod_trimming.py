"""What is kept of the pods that the scheduler caches.

Only a pod's condition about binding is read, and equal ones are one object. A pod has five
conditions; keeping them would cost 1 KiB for each of up to hundreds of thousands of pods.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from msgspec.structs import force_setattr

from shared_api.objects.compactor import Compactor
from shared_api.objects.pod import SCHEDULED, Pod, PodCondition, PodStatus


def pod_trimmer() -> Callable[[Pod, Pod | None], Pod]:
    """Return the function that trims pods before they are stored, and lets them share parts."""
    compact = Compactor().compact

    def trim(pod: Pod, before: Pod | None) -> Pod:
        scheduled = pod.scheduled
        verdict = None if scheduled is None else (scheduled.status, scheduled.reason)
        status = _shared_status(pod.status.phase, verdict)
        # It has just been decoded, so nobody else has it. The shared status must not be compacted:
        # parts of it would be replaced.
        force_setattr(pod, "status", PodStatus())
        compact(pod, before)
        force_setattr(pod, "status", status)
        return pod

    return trim


@functools.lru_cache(maxsize=256)
def _shared_status(phase: str, verdict: tuple[str, str] | None) -> PodStatus:
    if verdict is None:
        return PodStatus(phase=phase)
    status, reason = verdict
    scheduled = PodCondition(type=SCHEDULED, status=status, reason=reason)
    return PodStatus(phase=phase, conditions=(scheduled,))
