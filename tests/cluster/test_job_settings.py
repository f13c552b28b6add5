"""Settings of the controllers about the ownership of jobs, and about their priorities.

On a real API server; each case starts the controllers with a configuration file of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.api_audit import CONTROLLERS_AGENT
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import QueueWorld, job_view
from tests.cluster.served_kinds import install_crds, remove_crd
from tests.sample_jobs import KUEUE_WORKLOADS, crd
from tests.waiting import stays, until

Json = dict[str, Any]

PRIORITY: Final = "scheduling.x-k8s.io/priority"
HIGH, HIGH_VALUE = "settings-high", 20


@pytest.fixture(scope="module")
def world(controlplane_binaries: Path) -> Iterator[QueueWorld]:
    """A quota, and a priority class that the controllers know from their start."""
    with QueueWorld(controlplane_binaries) as world:
        world.create_quota("team", cpu_max=1)
        body = {"metadata": {"name": HIGH}, "value": HIGH_VALUE}
        world.api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body)
        yield world


@contextmanager
def controllers(world: QueueWorld, settings: Json) -> Iterator[ProgramProcess]:
    """Run the controllers with these settings in their configuration file."""
    config = world.folder / "controllers.yaml"
    config.write_text(json.dumps(settings))
    running = world.start_controllers(f"--config={config}", "--leader-elect=false")
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def serving(world: QueueWorld, definition: Json) -> Iterator[None]:
    """Serve a kind during a test."""
    install_crds(world.plane, definition)
    try:
        yield
    finally:
        remove_crd(world.plane, definition["metadata"]["name"])


CHECKS: Final = crd("admissionchecks")
"""Kinds of Kueue's group that this project uses as well."""


@pytest.mark.parametrize(
    ("name", "served", "settings", "is_ours"),
    [
        pytest.param("checks", CHECKS, {}, True, id="AdmissionChecks alone are not Kueue"),
        pytest.param(
            "left", CHECKS, {"leaveToKueue": True}, False, id="no Kueue is served: left to it"
        ),
        pytest.param(
            "queued", KUEUE_WORKLOADS, {"leaveToKueue": False}, True, id="Kueue is served: queued"
        ),
    ],
)
def test_which_queue_owns_a_job_with_the_label_of_kueue(
    world: QueueWorld, name: str, served: Json, settings: Json, is_ours: bool
) -> None:
    """The job names a quota that is too small for it."""
    with serving(world, served), controllers(world, settings) as running:
        world.create_job(
            name, "team", cpu="2", labels={"kueue.x-k8s.io/queue-name": "a"}, suspend=False
        )
        want = {"managed": True} if is_ours else {"managed": False, "reason": "LeftToKueue"}
        until(lambda: want.items() <= job_view(running, name).items())
        if is_ours:
            until(lambda: world.unit_of(name) and world.is_suspended(name))
        else:
            stays(lambda: not world.unit_of(name) and not world.is_suspended(name))
            assert world.audit.requests(CONTROLLERS_AGENT, name) == []
    world.delete_job(name)


PRIORITIES: Final[dict[str, tuple[str | None, Json, int]]] = {
    "annotated": ("99", {}, 0),
    "of-class": (None, {"priorityClassName": HIGH}, HIGH_VALUE),
    "annotated-of-class": ("99", {"priorityClassName": HIGH}, HIGH_VALUE),
    "number-alone": (None, {"priorityClassName": "gone", "priority": 5}, 0),
}
"""Annotation, fields of the pods, and the priority where only classes count."""


def test_where_only_classes_count_an_annotation_is_ignored_with_an_event(
    world: QueueWorld,
) -> None:
    def ignored(name: str) -> bool:
        note = world.event_notes(name).get("IgnoredAnnotation", "")
        return "only PriorityClasses count" in note

    with controllers(world, {"priorityFrom": "class"}):
        for name, (said, pod_spec, _) in PRIORITIES.items():
            annotations = {} if said is None else {PRIORITY: said}
            world.create_job(name, "team", annotations=annotations, pod_spec=pod_spec)
        for name, (said, _, want) in PRIORITIES.items():
            unit = until(partial(world.unit_of, name))
            assert unit["spec"]["priority"] == want, name
            assert said is None or until(partial(ignored, name))
        world.patch_job("of-class", {"metadata": {"annotations": {PRIORITY: "99"}}})
        until(partial(ignored, "of-class"))
        stays(lambda: world.unit_of("of-class")["spec"]["priority"] == HIGH_VALUE)
