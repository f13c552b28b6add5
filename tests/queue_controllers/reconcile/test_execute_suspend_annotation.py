"""The suspend annotation and each kind's own field: held, released, evicted, released again.

Over the fake API server, with the real CRDs. Operators report nothing, so an eviction takes the
minute that a silent one gets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml

from queue_controllers.configuration import read_configuration
from queue_controllers.extension_list import EXTENSIONS
from tests.cluster.kind_table import BY_KEY, WIDGET, WIDGET_CRD, Path, manifest, set_at, value_at
from tests.sample_jobs import (
    SERVICE_ACCOUNTS,
    WIDGET_DECLARATION,
    crd,
    declared_on_page,
    open_crd,
    sample,
)
from tests.stepped_host import writes_to

if TYPE_CHECKING:
    from tests.queue_controllers.controllers_world import World

Json = dict[str, Any]
Life = list[tuple[bool, str | None]]
"""The field and the annotation: held, released, evicted, released again."""

SUSPEND: Final = "scheduling.x-k8s.io/suspend"
LABELS: Final = {"quota.scheduling.koordinator.sh/name": "gold"}
SILENT_SECONDS: Final = 61.0
"""Time after which an operator counts as silent."""
KNOWN: Final = {each.kind.key for each in EXTENSIONS}

BARE: Final = "bare"
ANNOTATED: Final = "annotated"
"""Names of jobs: the first has no annotation, the other is queued by annotation."""
SPARK: Final = "sparkapp"
"""The kind whose jobs are held only if they are created suspended."""

FIELD_ALONE: Final[Life] = [(True, None), (False, None), (True, None), (False, None)]
BOTH: Final[Life] = [(True, "true"), (False, "false"), (True, "true"), (False, "false")]
ANNOTATION_FIRST: Final[Life] = [(False, "true"), *BOTH[1:]]
ANNOTATION_ALONE: Final[Life] = [(False, said) for _, said in BOTH]


@pytest.mark.parametrize("key", [key for key in BY_KEY if key != SPARK])
def test_without_a_setting_only_an_existing_annotation_is_changed(world: World, key: str) -> None:
    start(world, key, configured=False)
    for name in (BARE, ANNOTATED):
        create(world, key, name)
    assert lives_of(world, key) == {BARE: FIELD_ALONE, ANNOTATED: BOTH}
    assert switches_of(world, key) == 8, "field and annotation are one write"


@pytest.mark.parametrize("key", [key for key in BY_KEY if key not in {SPARK, "job"}])
def test_where_its_operator_honors_it_the_annotation_is_always_changed(
    world: World, key: str
) -> None:
    """One that is created with it is held already; the operator of Jobs does not honor it."""
    start(world, key, configured=True)
    for name in (BARE, ANNOTATED):
        create(world, key, name)
    assert lives_of(world, key) == {BARE: BOTH, ANNOTATED: ANNOTATION_FIRST}
    assert switches_of(world, key) == 7


@pytest.mark.parametrize(
    ("configured", "suspend", "bare", "annotated"),
    [
        pytest.param(False, True, FIELD_ALONE, BOTH, id="not configured"),
        pytest.param(True, True, [*FIELD_ALONE[:2], *BOTH[2:]], BOTH, id="configured"),
        pytest.param(True, None, None, ANNOTATION_FIRST, id="configured, and not suspended"),
    ],
)
def test_one_that_is_created_suspended_is_held_without_a_write(
    world: World, *, configured: bool, suspend: bool | None, bare: Life | None, annotated: Life
) -> None:
    start(world, SPARK, configured=configured)
    wanted = {ANNOTATED: annotated} if bare is None else {BARE: bare, ANNOTATED: annotated}
    for name in wanted:
        create(world, SPARK, name, suspend=suspend)
    assert lives_of(world, SPARK) == wanted
    assert switches_of(world, SPARK) == 3 * len(wanted)


def test_one_without_a_field_is_held_by_the_annotation_alone(world: World) -> None:
    """The MPIJob of Alibaba's operator, as docs/jobs.md declares it."""
    declared = declared_on_page("v1alpha1", "MPIJob")
    world.direct.create(open_crd("MPIJob", "mpijobs", "kubeflow.org", ("v1alpha1",), status=True))
    configuration = read_configuration({"kinds": [declared]}, KNOWN)
    world.start("--enabled-extensions=", configuration=configuration)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    body = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "spec": spec}
    for name in (BARE, ANNOTATED):
        world.direct.create({**body, "metadata": metadata_of(name)})
    found = lives(world, "mpijobs", ("spec", "suspend"))
    assert found == {BARE: ANNOTATION_ALONE, ANNOTATED: ANNOTATION_ALONE}
    assert writes_to(world.server).count("patch mpijobs") == 7


def test_every_kind_with_a_field_is_tested() -> None:
    with_field = {each.kind.key for each in EXTENSIONS if not each.kind.held_by_gates}
    assert set(BY_KEY) == {*with_field, WIDGET}


# --- objects ------------------------------------------------------------------------------------


def start(world: World, key: str, *, configured: bool) -> None:
    """Have the API server serve a kind, and the controllers manage it."""
    world.priority_class("high")
    for each in SERVICE_ACCOUNTS:
        world.service_account(each)
    names = {BY_KEY[key].crd, "jobsets" if key == "trainjob" else ""}
    for name in sorted(names - {""}):
        world.direct.create(crd(name))
    document: Json = {key: {"annotation": configured}}
    if key == WIDGET:
        world.direct.create(WIDGET_CRD)
        document |= yaml.safe_load(WIDGET_DECLARATION)
    enabled = "" if key == WIDGET else key
    configuration = read_configuration(document, KNOWN)
    world.start(f"--enabled-extensions={enabled}", configuration=configuration)


def metadata_of(name: str) -> Json:
    annotations = {SUSPEND: "true"} if name == ANNOTATED else {}
    return {"name": name, "namespace": "team", "labels": LABELS, "annotations": annotations}


def create(world: World, key: str, name: str, *, suspend: bool | None = None) -> None:
    """Create the sample of a kind; `suspend`: the value of its field, None for no field."""
    row = BY_KEY[key]
    body = manifest(row, name, LABELS, suspend=False)
    own, ours = body["metadata"], metadata_of(name)
    body["metadata"] = {**ours, "annotations": {**own["annotations"], **ours["annotations"]}}
    set_at(body, row.switch, suspend)
    if suspend is None:
        del value_at(body, row.switch[:-1])[row.switch[-1]]
    made = world.direct.create(body)
    if key == "trainjob":
        make_job_set(world, made)
        world.settle(6.0)


def make_job_set(world: World, train_job: Json) -> None:
    """Create the JobSet of a TrainJob as Trainer does, so that its demand is known."""
    owner = {key: train_job[key] for key in ("apiVersion", "kind")}
    owner |= {key: train_job["metadata"][key] for key in ("name", "uid")}
    names = {"name": owner["name"], "namespace": "team"}
    references = {"ownerReferences": [{**owner, "controller": True}]}
    world.direct.create({**sample("jobset"), "metadata": {**names, **references}})


# --- states -------------------------------------------------------------------------------------


def lives_of(world: World, key: str) -> dict[str, Life]:
    """Return the states of the jobs of a kind: held, released, evicted, released again."""
    return lives(world, plural_of(key), BY_KEY[key].switch)


def switches_of(world: World, key: str) -> int:
    """Return how many writes to jobs that took."""
    return writes_to(world.server).count(f"patch {plural_of(key)}")


def plural_of(key: str) -> str:
    return BY_KEY[key].api.rpartition("/")[2]


def lives(world: World, plural: str, switch: Path) -> dict[str, Life]:
    world.settle()
    units = world.units()
    said = [states(world, plural, switch)]
    for step in (admit, evict, admit):
        step(world, units)
        said.append(states(world, plural, switch))
        if step is evict:
            await_silence(world, units)
    return {name: [state[name] for state in said] for name in said[0]}


def states(world: World, plural: str, switch: Path) -> dict[str, tuple[bool, str | None]]:
    """Return for each job the values of its field and of its annotation."""
    return {
        job["metadata"]["name"]: (
            value_at(job, switch) is True,
            job["metadata"].get("annotations", {}).get(SUSPEND),
        )
        for job in world.direct.list(plural)
    }


def admit(world: World, units: Iterable[str]) -> None:
    for name in units:
        world.admit_unit(name)
    world.settle()


def evict(world: World, units: Iterable[str]) -> None:
    evicted = {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "x"}
    for name in units:
        conditions = [{**evicted, "lastTransitionTime": world.now()}]
        world.patch_unit_status({"conditions": conditions}, name)
    world.settle()


def await_silence(world: World, units: Iterable[str]) -> None:
    world.clock.advance(SILENT_SECONDS)
    world.settle()
    assert {world.phase(name) for name in units} == {"Enqueued"}
