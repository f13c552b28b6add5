"""One cluster with both programs, and what its users do."""

from __future__ import annotations

from queue_controllers.configuration import read_configuration
from tests.queue_controllers.controllers_world import World, pod_of
from tests.queue_controllers.reservations.reservation_kit import KoordScheduler
from tests.queue_scheduler.scheduler_world import SchedulerWorld
from tests.stepped_host import MOST_CALLS

RUNNING_TIMEOUT = 30.0
FIRST_BACKOFF = 10.0


class Town:
    """One cluster with both programs; `is_strict`: in strict mode, with Koordinator."""

    def __init__(
        self, scheduling: SchedulerWorld, *, cpu: int | None = 2, is_strict: bool = False
    ) -> None:
        self.scheduling = scheduling
        self.koord_scheduler = KoordScheduler(scheduling.direct)
        self._is_strict = is_strict
        if is_strict:
            self.koord_scheduler.install()
        self.jobs = World(quotas=False, beside=(scheduling.server, scheduling.clock))
        self.start()
        if cpu is not None:
            scheduling.add_quota("gold", cpu=cpu)
            self.pass_time(1.0)

    def start(self, running_timeout: float = RUNNING_TIMEOUT, controllers: str = "") -> None:
        """Start both programs, in place of the previous ones; `controllers`: a flag of theirs."""
        options = {"job": {"runningTimeout": f"{running_timeout:g}s"}}
        strict = self._is_strict
        self.scheduling.start(*(["--strictDequeueMode"] if strict else []))
        configuration = read_configuration(options, {"job"})
        flags = ["--enable-reservation"] if strict else []
        flags += [controllers] if controllers else []
        self.jobs.start(*flags, configuration=configuration)

    def pass_time(self, seconds: float, most: int = MOST_CALLS) -> None:
        """Let both programs work for this long; `most`: calls of a step in a row."""
        until = self.scheduling.clock.monotonic() + seconds
        while self.scheduling.clock.monotonic() < until:
            self.scheduling.settle(0.1, most)
            self.jobs.settle(0.1, most)

    def pass_until(self, phase: str, within: float) -> None:
        """Let time pass until the unit has this phase."""
        until = self.scheduling.clock.monotonic() + within
        while self.jobs.phase() != phase:
            assert self.scheduling.clock.monotonic() < until, self.jobs.get_unit()["status"]
            self.pass_time(0.2)

    def reported(self) -> list[tuple[str, str]]:
        """Return reason and note of each event on a Job, sorted."""
        events = self.jobs.direct.list("events.events.k8s.io")
        return sorted(
            (each["reason"], each["note"]) for each in events if each["regarding"]["kind"] == "Job"
        )

    def create_job(self) -> None:
        """Create the job, and wait for its unit."""
        self.jobs.job()
        self.pass_time(0.2)

    def add_pod(self, number: int, name: str = "main") -> None:
        """Run another pod of a job, with the requests of its template."""
        job, pod_name = self.jobs.get_job(name), f"{name}-{number}"
        pod = pod_of(job, pod_name)
        template = job["spec"]["template"]
        pod["spec"] = template["spec"]
        pod["metadata"] |= template.get("metadata", {})
        self.jobs.direct.create(pod)
        self.jobs.patch_pod_status(pod_name, phase="Running")

    def delete_pod(self, number: int, name: str = "main") -> None:
        """Delete a pod of a job."""
        self.jobs.direct.delete("pods", f"{name}-{number}", "team")

    def annotate(self, key: str, text: str) -> None:
        """Annotate the job, as its owner does."""
        self.jobs.patch_job({"metadata": {"annotations": {key: text}}})

    def let_pods_time_out(self, ends: str = "TimeoutBackoff") -> None:
        """Keep the job's pods Pending until it is evicted, and then delete them."""
        self.pass_until("Dequeued", 2 * FIRST_BACKOFF)
        self.pass_time(1.0)
        assert not self.jobs.is_suspended()
        self.jobs.run_pods(phase="Pending")
        self.pass_time(RUNNING_TIMEOUT + 1.0)
        assert self.jobs.is_suspended()
        assert self.jobs.phase() == "Dequeued", "charged until its pods are gone"
        self.jobs.end_pods()
        self.pass_until(ends, 2.0)
