"""What the writes of a unit's life cost the API server: create, dequeue, end, by a bare loop.

No program of ours runs, so what is measured is the CRD. With another checkout (`--before DIR`) its
CRDs take turns with ours on one API server, in changing order, and each figure's control is the
other's. Allocated bytes hardly depend on what else the machine does; CPU does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.benchmarks import bare_loop
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure, figure_of_turns
from tests.benchmarks.turns import take_turns
from tests.cluster.program_process import ROOT

UNITS: Final = 1000
PAIRS: Final = 5
ALLOCATED: Final = "go_memstats_alloc_bytes_total"
KB: Final = 1000


class Turn(NamedTuple):
    """What one unit cost."""

    api_cpu_ms: float
    etcd_cpu_ms: float
    allocated_kb: float
    """By the API server."""


def run(before: Path | None = None, *, quick: bool = False) -> list[Figure]:
    """Measure, with the CRDs of another checkout in turns if there is one."""
    pairs, units = (1, 200) if quick else (PAIRS, UNITS)
    ours: list[Turn] = []
    others: list[Turn] = []
    with ClusterWorld() as world:
        for number, root in take_turns(before, pairs):
            world.plane.apply(root / "crds")
            turn = _play(world, units)
            (ours if root == ROOT else others).append(turn)
            print(f"  {number} {root.name}:", turn, flush=True)
    return _figures(ours, others)


def _play(world: ClusterWorld, units: int) -> Turn:
    bare_loop.warm_up(world)
    allocated = allocated_kb(world)
    outcome = bare_loop.play_bare(world, units)
    allocated = allocated_kb(world) - allocated
    bare_loop.delete_units(world)
    cpu = outcome.cpu_ms_per_unit
    return Turn(cpu("kube-apiserver"), cpu("etcd"), allocated / units)


def allocated_kb(world: ClusterWorld) -> float:
    """Return what the API server has allocated so far."""
    lines = world.plane.kubectl("get", "--raw", "/metrics").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{ALLOCATED} ")) / KB


def _figures(ours: Sequence[Turn], others: Sequence[Turn]) -> list[Figure]:
    names = {"api_cpu_ms": "ms/unit", "etcd_cpu_ms": "ms/unit", "allocated_kb": "kB/unit"}
    return [
        figure_of_turns(
            f"crd_writes_{name}",
            unit,
            [getattr(each, name) for each in ours],
            [getattr(each, name) for each in others],
        )
        for name, unit in names.items()
    ]
