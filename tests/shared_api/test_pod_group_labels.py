"""Four kinds of labels for pods that start together."""

from __future__ import annotations

import pytest

from shared_api.objects.meta import ObjectMeta
from shared_api.objects.pod import Pod
from shared_api.pod_group_labels import (
    KOORDINATOR_API,
    PLUGINS_API,
    GroupMark,
    read_group_mark,
)

COUNT = "kueue.x-k8s.io/pod-group-total-count"
GANG = "gang.scheduling.koordinator.sh/"


def marked(labels: dict[str, str], annotations: dict[str, str]) -> GroupMark | None:
    return read_group_mark(Pod(metadata=ObjectMeta(labels=labels, annotations=annotations)))


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        ({"kueue.x-k8s.io/pod-group-name": "g"}, {COUNT: "3"}, (3, "")),
        ({"kueue.x-k8s.io/pod-group-name": "g"}, {}, (None, "")),
        ({"pod-group.scheduling.sigs.k8s.io": "g"}, {COUNT: "3"}, (None, KOORDINATOR_API)),
        ({"pod-group.scheduling.sigs.k8s.io/name": "g"}, {}, (None, KOORDINATOR_API)),
        ({"scheduling.x-k8s.io/pod-group": "g"}, {}, (None, PLUGINS_API)),
        ({}, {GANG + "name": "g", GANG + "min-available": "2"}, (2, "")),
        (
            {},
            {GANG + "name": "g", GANG + "min-available": "2", GANG + "total-number": "4"},
            (4, ""),
        ),
        ({}, {GANG + "name": "g"}, (None, "")),
    ],
)
def test_whose_labels(
    labels: dict[str, str], annotations: dict[str, str], want: tuple[int | None, str]
) -> None:
    found = marked(labels, annotations)
    assert found is not None
    assert (found.name, found.pods, found.api_group) == ("g", *want)


def test_a_pod_without_labels_is_alone() -> None:
    assert marked({}, {}) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "three", "1.5", "10001", "²", "9" * 5000])
def test_an_invalid_number_is_none(text: str) -> None:
    found = marked({"kueue.x-k8s.io/pod-group-name": "g"}, {COUNT: text})
    assert found is not None
    assert found.pods is None
