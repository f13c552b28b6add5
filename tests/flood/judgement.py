"""What is wrong with the figures of a round, compared with the same run without a flood."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.figures import percentile
from tests.flood.bystanders import Sample, is_probe

MOST_SECONDS: Final = 1.0
"""What an answer may take longer than without the flood, the 99th of a hundred; of probes and
discovery every one."""
LEAST_RATIO: Final = 0.9
"""Of the jobs that start without the flood."""
REST_SECONDS: Final = 30.0
REST_CORES: Final = 0.2
"""What a program may use more than without the flood, when it is at rest."""
REST_MIB: Final = 64
"""What a program may keep of what the flood has cost it: allocators give back late."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory of a program in MiB: before, at most, when at rest, and what it may use."""

    before: float
    peak: float
    after: float
    limit: float


@dataclass(frozen=True, kw_only=True)
class Window:
    """What was seen in some time.

    Attributes:
        seconds: How long it was.
        samples: The answers of bystanders.
        starts: How long each job waited that started.
        cores: What each program used.
    """

    seconds: float
    samples: Sequence[Sample]
    starts: Sequence[float]
    cores: Mapping[str, float]

    @property
    def rate(self) -> float:
        """Jobs that started, per second."""
        return len(self.starts) / self.seconds

    def slowest(self, name: str) -> float:
        """Return how long a bystander waited: of users p99, of probes and discovery the most."""
        took = [each.seconds for each in self.samples if each.name == name]
        if not took:
            return 0.0
        return max(took) if is_probe(name) else percentile(took, 0.99)

    def names(self) -> list[str]:
        """Return the bystanders that were answered."""
        return sorted({each.name for each in self.samples})


@dataclass(frozen=True)
class Quiet:
    """What was seen without a flood, before it and perhaps again after it.

    Of two times the worse counts: a machine with other work changes meanwhile.
    """

    windows: Sequence[Window]

    @property
    def rate(self) -> float:
        """Jobs that start, per second."""
        return min(each.rate for each in self.windows)

    def slowest(self, name: str) -> float:
        """Return how long a bystander waits."""
        return max(each.slowest(name) for each in self.windows)

    def cores(self, name: str) -> float:
        """Return what a program uses."""
        return max(each.cores[name] for each in self.windows)


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A round: what was seen without the flood and during it, and what came after.

    Attributes:
        quiet: Without the flood.
        flooded: During it.
        memory: By program.
        rest_seconds: When all was as before; None: not in time.
        unrest: What was not, at the end of that time.
    """

    quiet: Quiet
    flooded: Window
    memory: Mapping[str, Memory]
    rest_seconds: float | None
    unrest: Sequence[str] = field(default_factory=tuple)

    @property
    def ratio(self) -> float:
        """Jobs that started, of those without the flood."""
        return self.flooded.rate / self.quiet.rate if self.quiet.rate else 0.0


def faults(figures: Figures) -> list[str]:
    """Return what is wrong, in sentences; nothing if all is well."""
    found = [
        *slow_answers(figures.quiet, figures.flooded),
        *refusals(figures.flooded),
    ]
    if figures.ratio < LEAST_RATIO:
        found.append(f"jobs start at {figures.ratio:.2f} of the rate without the flood")
    for name, memory in figures.memory.items():
        if memory.peak > memory.limit:
            found.append(f"{name} takes {memory.peak:.0f} MiB of {memory.limit:.0f}")
        if memory.after > memory.before + REST_MIB:
            found.append(f"{name} keeps {memory.after - memory.before:.0f} MiB")
    if figures.rest_seconds is None:
        found.append(f"after {REST_SECONDS:.0f} s: {'; '.join(figures.unrest)}")
    return found


def slow_answers(quiet: Quiet, seen: Window) -> list[str]:
    """Return which bystanders wait too long."""
    return [
        f"{name} takes {seen.slowest(name):.2f} s (without the flood {quiet.slowest(name):.2f})"
        for name in seen.names()
        if seen.slowest(name) > quiet.slowest(name) + MOST_SECONDS
    ]


def refusals(seen: Window) -> list[str]:
    """Return which bystanders are refused, and how often."""
    found = []
    for name in seen.names():
        statuses = [each.status for each in seen.samples if each.name == name]
        wrong = [each for each in statuses if each != 200]
        if wrong:
            codes = ", ".join(str(each) for each in sorted(set(wrong)))
            found.append(f"{name} is refused {len(wrong)} of {len(statuses)} times ({codes})")
    return found


def unrest(quiet: Quiet, seen: Window, apart_from: Collection[str] = ()) -> list[str]:
    """Return what is not yet as without the flood.

    Args:
        quiet: What is seen without it.
        seen: What is seen now.
        apart_from: Programs that may be busy.
    """
    busy = [
        f"{name} uses {cores:.2f} cores"
        for name, cores in seen.cores.items()
        if name not in apart_from and cores > quiet.cores(name) + REST_CORES
    ]
    found = [*slow_answers(quiet, seen), *refusals(seen), *busy]
    if seen.rate < LEAST_RATIO * quiet.rate:
        found.append(f"{seen.rate:.1f} jobs start in a second, of {quiet.rate:.1f}")
    return found
