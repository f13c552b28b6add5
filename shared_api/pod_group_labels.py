"""Labels and annotations by which pods name their group, in the words of four projects. Pure.

Kueue's label names the group and its annotation the number of pods. A PodGroup, Koordinator's or
that of the scheduler-plugins, is named by a label and has the number itself. A gang of Koordinator
without a PodGroup has both in annotations.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from shared_api.objects.pod import Pod
from shared_api.well_known_labels import (
    KOORDINATOR_GANG,
    KOORDINATOR_GANG_COUNT,
    KOORDINATOR_POD_GROUP,
    KUEUE_GROUP_COUNT,
    KUEUE_POD_GROUP,
    PLUGINS_POD_GROUP,
)

KOORDINATOR_API: Final = "scheduling.sigs.k8s.io"
PLUGINS_API: Final = "scheduling.x-k8s.io"
"""API groups of the two kinds called PodGroup."""

MAX_PODS: Final = 10_000
"""The most pods of a group; a larger number is a mistake."""


class GroupMark(NamedTuple):
    """What a pod says about its group."""

    name: str
    counts: tuple[str | None, ...] = ()
    """The counts that the pod states; the first that can be parsed counts."""
    api_group: str = ""
    """API group of the PodGroup that states it."""

    @property
    def pods(self) -> int | None:
        """How many pods it has, if the pod states it; None: an object may."""
        counts = map(_count, self.counts)
        return next((each for each in counts if each is not None), None)


def read_group_mark(pod: Pod) -> GroupMark | None:
    """Return what a pod says about its group; None if it is alone."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if name := labels.get(KUEUE_POD_GROUP):
        return GroupMark(name, (annotations.get(KUEUE_GROUP_COUNT),))
    for key in KOORDINATOR_POD_GROUP:
        if name := labels.get(key):
            return GroupMark(name, api_group=KOORDINATOR_API)
    if name := labels.get(PLUGINS_POD_GROUP):
        return GroupMark(name, api_group=PLUGINS_API)
    if name := annotations.get(KOORDINATOR_GANG):
        return GroupMark(name, tuple(map(annotations.get, KOORDINATOR_GANG_COUNT)))
    return None


def _count(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdecimal()) or len(text) > len(str(MAX_PODS)):
        return None
    return int(text) if 0 < int(text) <= MAX_PODS else None
