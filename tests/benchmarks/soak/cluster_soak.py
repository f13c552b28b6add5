"""Both programs on a real control plane, with Jobs that come and go and a fault every minute."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.benchmarks.soak.cut_proxy import CutProxy
from tests.benchmarks.soak.faults import Faults
from tests.benchmarks.soak.growth import Soaked, judge
from tests.benchmarks.soak.job_stream import QUOTA_CPU, QUOTAS, JobStream, await_all
from tests.benchmarks.soak.program_samples import HOUR, ProgramSamples
from tests.cluster.program_process import CONTROLLERS, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import QueueWorld
from tests.cluster.supervised import Supervised
from tests.cluster.test_kill_and_restart import is_error

LEASE_FLAGS: Final = (
    "--leader-elect-lease-duration=45",
    "--leader-elect-renew-deadline=40",
    "--leader-elect-retry-period=1",
)
"""A cut is shorter than that: a program that loses its lease ends, and shows no growth."""
FLAGS: Final = {SCHEDULER: (), CONTROLLERS: ("--enabled-extensions=job",)}
SAMPLE_SECONDS: Final = 5.0
FAULT_SECONDS: Final = 60.0
WITH_KILLS: Final = 0.3
"""Share of the time in which the programs are killed as well. The rest is judged for growth, from
its second half on: in two hours, the first half of it has more Jobs than the largest cache has
entries, the 4,096 objects that events were told about."""
END_SECONDS: Final = 180.0


def soak(binaries: Path, hours: float) -> Soaked:
    """Run both programs for so long."""
    with ExitStack() as stack:
        world = stack.enter_context(QueueWorld(binaries, jobs=True))
        return _Soak(world, stack, hours).run()


class _Soak:
    def __init__(self, world: QueueWorld, stack: ExitStack, hours: float) -> None:
        self._world = world
        self._seconds = hours * HOUR
        for name in QUOTAS:
            world.create_quota(name, cpu_max=QUOTA_CPU)
        proxy = stack.enter_context(CutProxy(urlsplit(world.plane.url).port or 0))
        path = proxy.kubeconfig(world.plane.kubeconfig, world.folder / "proxied.kubeconfig")
        self._logs = {module: world.folder / f"{module}.log" for module in FLAGS}
        programs = {
            module: stack.enter_context(
                Supervised(ProgramProcess(module, path, self._logs[module], [*LEASE_FLAGS, *flags]))
            )
            for module, flags in FLAGS.items()
        }
        for each in programs.values():
            each.process.wait_until_ready()
        self._samples = [
            ProgramSamples(module.removeprefix("queue_"), each.process)
            for module, each in programs.items()
        ]
        self._exits = [each.exit_codes for each in programs.values()]
        self._faults = Faults(world, proxy, programs[SCHEDULER], programs[CONTROLLERS])
        self._caused = 0
        self._early_exits = 0

    def run(self) -> Soaked:
        began = time.monotonic()
        with JobStream(self._world) as jobs:
            faults = self._faults.in_order(
                with_kills=lambda: time.monotonic() - began < WITH_KILLS * self._seconds
            )
            while (now := time.monotonic() - began) < self._seconds:
                if now > (self._caused + 1) * FAULT_SECONDS:
                    name, cause = next(faults)
                    print(f"{now / 60:7.1f} min: {name}", flush=True)
                    cause()
                    self._caused += 1
                if now < self._seconds / 2:
                    self._early_exits = sum(map(len, self._exits))
                for each in self._samples:
                    each.take()
                time.sleep(SAMPLE_SECONDS)
        left = await_all(self._world, END_SECONDS)
        counts: dict[str, float] = {
            "Jobs": jobs.created,
            "faults": self._caused,
            "exits of programs": sum(map(len, self._exits)),
            "of these in the second half": sum(map(len, self._exits)) - self._early_exits,
            "requests of the test that failed": jobs.refused,
            "samples without an answer": sum(each.missed for each in self._samples),
        }
        return Soaked(
            verdicts=[judge(track) for each in self._samples for track in each.tracks.values()],
            counts=counts,
            complaints=list(self._complaints(left)),
        )

    def _complaints(self, left: int) -> list[str]:
        found = [f"{left} units are left after all Jobs"] if left else []
        found += [
            f"the self-audit found {each.differences:g} differences"
            for each in self._samples
            if each.differences
        ]
        for path in self._logs.values():
            lines = path.read_text(errors="replace").splitlines()
            errors = [line for line in lines if is_error(line)]
            found += [f"{path.name}: {line[:300]}" for line in errors[:5]]
        return found
