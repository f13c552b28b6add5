"""How little of jobs is kept, and that every field that is read is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from queue_controllers.extensions.training_job import TRAINING_JOBS
from queue_controllers.watches.job_trimming import JobTrimmer
from shared_api.objects.meta import APPLIED
from tests.sample_jobs import sample

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

(PYTORCH,) = (each for each in TRAINING_JOBS if each.kind.key == "pytorchjob")


def decode(name: str, **annotations: str) -> Any:
    body = sample("pytorchjob")
    body["metadata"] |= {"name": name, "annotations": annotations}
    return msgspec.json.decode(msgspec.json.encode(body), type=PYTORCH.object_type)


def test_fields_that_are_read_stay_unchanged() -> None:
    slim = JobTrimmer().slim
    assert slim(decode("one", note="x")) == decode("one", note="x")


def test_the_manifest_that_was_applied_is_left_out() -> None:
    slim = JobTrimmer().slim
    applied = {APPLIED: "{}", "note": "x"}
    first = slim(decode("one", **applied))
    assert first == decode("one", note="x")
    assert slim(decode("one", **applied), first) == first


def test_jobs_of_one_template_share_its_parts() -> None:
    slim = JobTrimmer().slim
    first, second = (PYTORCH.pod_sets(slim(decode(name))) for name in ("one", "two"))
    assert [each.template.spec for each in first] == [each.template.spec for each in second]
    for one, two in zip(first, second, strict=True):
        assert one.template.spec.containers[0] is two.template.spec.containers[0]


def test_an_object_of_an_unknown_class_is_kept_unchanged() -> None:
    strange = object()
    assert JobTrimmer().slim(strange) is strange


def test_caches_of_jobs_and_units_trim_objects(world: World) -> None:
    controllers = world.start()
    for name in ("one", "two"):
        world.job(name, annotations={APPLIED: "{}"})
    world.settle()
    jobs, units = controllers.servers[0], controllers.servers[0]._units  # noqa: SLF001 - no door
    first, second = (units.get(f"team/{name}") for name in ("one", "two"))
    assert first is not None
    assert second is not None
    assert first.spec.pod_set[0].template is second.spec.pod_set[0].template
    one, two = jobs.job_of(first), jobs.job_of(second)
    assert one is not None
    assert two is not None
    assert one.spec.template.spec is two.spec.template.spec
    assert APPLIED not in one.metadata.annotations
    assert APPLIED in world.get_job("one")["metadata"]["annotations"]
