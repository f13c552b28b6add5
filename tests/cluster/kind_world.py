"""A cluster that serves all kinds of jobs, with both programs, and one job's life in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from shared_api.well_known_labels import ACTIVE
from tests.cluster.judgement import Seen
from tests.cluster.kind_table import (
    WIDGET,
    WIDGET_CRD,
    KindRow,
    manifest,
    set_at,
    value_at,
)
from tests.cluster.kind_table import (
    Path as FieldPath,
)
from tests.cluster.observer import PATHS, Observer
from tests.cluster.played_operators import Operator
from tests.cluster.played_pods import OF
from tests.cluster.program_process import ProgramProcess
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUOTA_LABEL, QueueWorld, quota_view
from tests.cluster.served_kinds import install_crds
from tests.controlplane.api_client import ApiError
from tests.sample_jobs import SERVICE_ACCOUNTS, WIDGET_DECLARATION, crd
from tests.waiting import until

Json = dict[str, Any]

HIGH: Final = "high"
HIGH_VALUE: Final = 70
EVERYTHING: Final = {
    "memory": "4Ti",
    "nvidia.com/gpu": "1000",
    "ephemeral-storage": "4Ti",
}


class KindWorld:
    """All kinds of jobs, side by side.

    Args:
        world: the cluster.
        scheduler: of queue units.
        controllers: of the kinds.
        observer: has seen all jobs, pods and units.
    """

    def __init__(
        self,
        world: QueueWorld,
        scheduler: ProgramProcess,
        controllers: ProgramProcess,
        observer: Observer,
    ) -> None:
        self.world = world
        self.scheduler = scheduler
        self.controllers = controllers
        self.observer = observer

    def job(self, row: KindRow, name: str) -> JobLife:
        """Return a job of a kind; it need not exist yet."""
        return JobLife(self, row, name)

    def create_quota(self, name: str, cpu_max: int) -> str:
        """Create a quota; return its name."""
        self.world.create_quota(name, cpu_max=cpu_max)
        return name

    def await_charged(self, quota: str, cpu: str) -> None:
        """Wait until this many CPUs are charged to a quota; "0" for none."""

        def as_wanted() -> bool:
            booked = quota_view(self.scheduler, quota)["charged"]
            return bool(booked.get("cpu", "0") == cpu)

        until(as_wanted)


class JobLife:
    """One job, its unit and its operator.

    Args:
        place: the cluster that it is in.
        row: its kind.
        name: its name.
    """

    def __init__(self, place: KindWorld, row: KindRow, name: str) -> None:
        version, _, plural = row.api.rpartition("/")
        self.row, self.name = row, name
        self.sets = [(name if row.key == "job" else each, count) for each, count in row.sets]
        self.path = f"/apis/{version}/namespaces/default/{plural}"
        self._place, self._api = place, place.world.api
        has_status_path = row.key != "workflow"
        self.operator = Operator(self._api, row.key, self.path, has_status_path=has_status_path)
        self.uid = ""

    # --- what its user does -----------------------------------------------------------------------

    def create(self, quota: str, *, suspend: bool) -> Json:
        """Create the sample of the kind in a quota, of a high priority class."""
        body = manifest(self.row, self.name, {QUOTA_LABEL: quota}, suspend=suspend)
        set_at(body, self.row.priority_class, HIGH)
        made: Json = self._api.request("POST", f"{self.path}?fieldValidation=Strict", body)
        self.uid = made["metadata"]["uid"]
        return made

    def edit(self, path: FieldPath, value: Any) -> None:
        """Change one field of the job."""

        def put() -> bool:
            body = self.body()
            set_at(body, path, value)
            try:
                self._api.request("PUT", f"{self.path}/{self.name}", body)
            except ApiError as error:
                if error.status != 409:  # another client has written in between
                    raise
                return False
            return True

        until(put)

    def grow(self, path: FieldPath) -> None:
        """Increase a count of the job by one."""
        self.edit(path, (value_at(self.body(), path) or 1) + 1)
        self.operator.hold(self.name)

    def annotate(self, key: str, value: str | None) -> None:
        """Set an annotation of the job, or remove it."""
        body = {"metadata": {"annotations": {key: value}}}
        self.operator.objects.merge(f"{self.path}/{self.name}", body)

    def delete(self) -> None:
        """Delete the job as kubectl does, and what was created for it.

        The garbage collector would do the latter, but learns of a new kind after half a minute.
        """
        self.operator.objects.delete(f"{self.path}/{self.name}")
        self.operator.collect(self.name)

    # --- its state --------------------------------------------------------------------------------

    def body(self) -> Json:
        """Return the job."""
        found: Json = self._api.request("GET", f"{self.path}/{self.name}")
        return found

    def is_suspended(self) -> bool:
        """Return whether its switch is on."""
        return value_at(self.body(), self.row.switch) is True

    def unit(self) -> Json:
        """Return its unit, {} while there is none."""
        return self._place.world.unit_of_uid(self.uid)

    def phase(self) -> str:
        """Return its unit's phase, "" while there is none."""
        return str(self.unit().get("status", {}).get("phase", ""))

    def await_phase(self, *phases: str) -> Json:
        """Wait until its unit is in this phase, and return it."""
        found = until(
            lambda: (unit := self.unit()).get("status", {}).get("phase") in phases and unit,
            OWN_TIMES_SECONDS,
        )
        assert found
        return found

    def releases(self) -> list[int]:
        """Return the resourceVersions at which its switch was turned off."""
        found, was_on = [], False
        for each in self._seen(self.row.key):
            is_on = value_at(each.body, self.row.switch) is True
            if was_on and not is_on:
                found.append(each.version)
            was_on = is_on
        return found

    def first_pod(self) -> int:
        """Return the resourceVersion at which a pod of the job was first seen."""

        def versions() -> list[int]:
            pods = [each for each in list(self._place.observer.seen) if each.plural == "pods"]
            labels = ((pod.version, pod.body["metadata"].get("labels", {})) for pod in pods)
            return [version for version, marks in labels if marks.get(OF) == self.name]

        return min(until(versions))

    def _seen(self, plural: str) -> list[Seen]:
        """Return all events of this job, by uid, in order."""
        seen = (each for each in list(self._place.observer.seen) if each.plural == plural)
        ours = (each for each in seen if each.body["metadata"]["uid"] == self.uid)
        return sorted(ours, key=lambda each: each.version)

    # --- steps of its life ------------------------------------------------------------------------

    def enter(self, quota: str) -> None:
        """Create it suspended, and have its operator report that."""
        self.create(quota, suspend=True)
        self.operator.hold(self.name)

    def await_gone(self) -> None:
        """Wait until it has no unit."""
        until(lambda: not self.unit())

    def await_held(self) -> Json:
        """Wait until it is suspended and in the queue; return its unit."""
        until(self.is_suspended)
        self.operator.hold(self.name)
        return self.await_phase("Enqueued")

    def run(self) -> Json:
        """Wait for its release, have its operator start it, and wait until its unit runs."""
        until(lambda: not self.is_suspended())
        self.operator.start(self.name, self.row.wanted_pods)
        return self.await_phase("Running")

    def evict(self, *, by_annotation: bool) -> None:
        """Request its eviction, and have its operator stop it."""
        self._set_active(active=False, by_annotation=by_annotation)
        until(self.is_suspended)
        self.operator.stop(self.name)
        self.await_phase("Enqueued")

    def let_in_again(self, *, by_annotation: bool) -> None:
        """Requeue it."""
        self._set_active(active=True, by_annotation=by_annotation)

    def _set_active(self, *, active: bool, by_annotation: bool) -> None:
        if by_annotation:
            self.annotate(ACTIVE, "true" if active else "false")
            return
        self._place.world.set_active(self.unit()["metadata"]["name"], active=active)


@contextmanager
def kind_world(
    binaries: Path,
    rows: Iterable[KindRow],
    *,
    without: Iterable[KindRow] = (),
    more: Iterable[str] = (),
) -> Iterator[KindWorld]:
    """Run a cluster with both programs for these kinds, and most of their CRDs.

    More extensions can be enabled; the caller installs what those need.
    """
    enabled, missing = tuple(rows), {each.crd for each in without}
    with ExitStack() as stack:
        world = stack.enter_context(QueueWorld(binaries, jobs=True))
        world.plane.create_nodes(4, cpu="1000", extra_resources=EVERYTHING, name_prefix="large")
        world.plane.kubectl("label", "namespace", "default", "koord-queue/managed=true")
        world.create_priority_class(HIGH, HIGH_VALUE)
        for name in SERVICE_ACCOUNTS:
            world.create_service_account(name)
        scheduler = world.start_scheduler("--leader-elect=false")
        paths = {each.key: f"/apis/{each.api}" for each in enabled}
        observer = stack.enter_context(Observer(world.plane.client_for(), {**PATHS, **paths}))
        config = world.folder / "controllers.yaml"
        config.write_text(WIDGET_DECLARATION)
        keys = ",".join((*(each.key for each in enabled if each.key != WIDGET), *more))
        controllers = world.start_controllers(
            "--leader-elect=false", f"--config={config}", f"--enabled-extensions={keys}"
        )
        place = KindWorld(world, scheduler, controllers, observer)
        wanted = {each.crd for each in enabled if each.crd} - missing
        install_crds(world.plane, WIDGET_CRD, *map(crd, sorted(wanted)))
        yield place
