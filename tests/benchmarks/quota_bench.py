"""The speed of the quota cache: `python -m tests.benchmarks.quota_bench [--json FILE]`.

Seconds are CPU seconds of the thread, so that a busy machine has little effect.

There are two loads. `max`: 100 quotas under one parent, as in a flat cluster. `runtime`: 500 quotas
in three levels under contention: every quota requests more than there is, so that a charge of one
waits for the release of another, and every release wakes waiters. A decision is one demand that is
checked, charged, and later released, including its refusals. The control is the same loop with
plain dicts, without any rule.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import deque
from collections.abc import Hashable
from pathlib import Path

from queue_scheduler.quota.quota_decision import Demand
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding
from queue_scheduler.quota_cache.quota_cache import QuotaCache
from shared_api.objects.elastic_quota import ElasticQuota, ElasticQuotaSpec
from shared_api.objects.meta import ObjectMeta
from shared_api.well_known_labels import QUOTA_IS_PARENT, QUOTA_PARENT
from tests.properties.quota_cases import take_woken

Figure = dict[str, float | str]

GIB = 2**30
WARM_UP_STARTS = 1500


def quota(name: str, parent: str, cpu: int, share: int, *, is_parent: bool = False) -> ElasticQuota:
    """Return a quota with max `cpu` cores (memory and GPUs to match), and min a part of it."""
    labels = (
        {QUOTA_PARENT: parent, QUOTA_IS_PARENT: "true"} if is_parent else {QUOTA_PARENT: parent}
    )
    return ElasticQuota(
        metadata=ObjectMeta(name=name, namespace="ns", labels=labels),
        spec=ElasticQuotaSpec(
            min={"cpu": cpu // share, "memory": cpu // share * 4 * GIB, "nvidia.com/gpu": 0},
            max={"cpu": cpu, "memory": cpu * 4 * GIB, "nvidia.com/gpu": cpu},
        ),
    )


def demands(rng: random.Random, count: int) -> list[Demand]:
    """Return demands of 1 to 16 cores."""
    sizes = [rng.choice((1, 2, 4, 8, 16)) for _ in range(count)]
    return [
        Demand({"cpu": size * 1000, "memory": size * 2 * GIB, "nvidia.com/gpu": size // 8})
        for size in sizes
    ]


def flat_quotas() -> tuple[QuotaCache, list[str]]:
    """Return 100 quotas under one parent, in `max` mode."""
    quotas = QuotaCache(QuotaSettings(mode=QuotaMode.MAX))
    quotas.on_quota(quota("org", "", 100_000, 2, is_parent=True))
    names = [f"team-{number:03}" for number in range(100)]
    for name in names:
        quotas.on_quota(quota(name, "org", 1000, 2))
    quotas.problems()
    return quotas, names


def deep_quotas(rounding: Rounding) -> tuple[QuotaCache, list[str]]:
    """Return 500 quotas in three levels (8, 72, 420), in `runtime` mode, under one total."""
    quotas = QuotaCache(QuotaSettings(rounding_override=rounding))
    names: list[str] = []
    for org in range(8):
        quotas.on_quota(quota(f"o{org}", "", 2000, 4, is_parent=True))
        for unit in range(9):
            quotas.on_quota(quota(f"o{org}u{unit}", f"o{org}", 600, 12, is_parent=True))
    for number in range(420):
        parent = f"o{number % 8}u{number // 8 % 9}"
        quotas.on_quota(quota(f"{parent}t{number}", parent, 300, 60))
        names.append(f"{parent}t{number}")
    quotas.on_capacity({"cpu": 4_000_000, "memory": 16_000 * GIB, "nvidia.com/gpu": 500})
    quotas.problems()
    return quotas, names


def run_flat(quotas: QuotaCache, names: list[str], count: int) -> float:
    """Return seconds per check, charge and release without contention."""
    rng = random.Random(1)
    wanted = demands(rng, 1000)
    running: deque[str] = deque()
    started = time.process_time()
    for number in range(count):
        name = names[number * 7 % len(names)]
        demand = wanted[number % 1000]
        owner = str(number)
        while quotas.check(name, demand) is not None:
            quotas.release(running.popleft())
        quotas.charge(owner, name, demand)
        running.append(owner)
        if len(running) > 2000:
            quotas.release(running.popleft())
            quotas.stirred_domains()
    return (time.process_time() - started) / count


class Contention:
    """Contending demands: the head of each quota waits until it is woken."""

    def __init__(self, quotas: QuotaCache, names: list[str]) -> None:
        self.quotas = quotas
        self.rng = random.Random(2)
        self.wanted = demands(self.rng, 1000)
        self.running: deque[str] = deque()
        self.ready: deque[Hashable] = deque(names)
        self.numbers = {name: number * 7 for number, name in enumerate(names)}
        self.checks = self.refusals = self.starts = self.woken = 0

    def run(self, starts: int) -> float:
        """Return seconds per further start, including its check, charge, and release."""
        began = time.process_time()
        until = self.starts + starts
        while self.starts < until:
            if not self.ready:
                self._take_woken()
            if not self.ready:
                self._end_one()
            else:
                self._try(str(self.ready.popleft()))
        return (time.process_time() - began) / starts

    def _demand(self, name: str) -> Demand:
        return self.wanted[self.numbers[name] % 1000]

    def _try(self, name: str) -> None:
        demand = self._demand(name)
        refusal = self.quotas.check(name, demand)
        self.checks += 1
        if refusal is not None:
            self.refusals += 1
            self.quotas.wait(name, name, demand, refusal)
            self._protect(name, demand)
            return
        self.starts += 1
        self.numbers[name] += 1
        owner = f"{name}/{self.numbers[name]}"
        self.quotas.charge(owner, name, demand)
        self._protect(name, None)
        self.running.append(owner)
        self.ready.append(name)

    def _protect(self, name: str, demand: Demand | None) -> None:
        self.quotas.protect(name, demand)

    def _end_one(self) -> None:
        self.running.rotate(-self.rng.randrange(min(len(self.running), 50)))
        self.quotas.release(self.running.popleft())

    def _take_woken(self) -> None:
        woken = take_woken(self.quotas, 1)
        self.woken += len(woken)
        self.ready.extend(woken)


def run_control(count: int) -> float:
    """Return seconds per turn of the same loop with plain dicts, without any rule."""
    wanted = demands(random.Random(1), 1000)
    owners: dict[str, Demand] = {}
    used: dict[str, int] = {}
    started = time.process_time()
    for number in range(count):
        demand = wanted[number % 1000]
        owners[str(number)] = demand
        for key, amount in demand.amounts.items():
            used[key] = used.get(key, 0) + amount
        if number >= 2000:
            for key, amount in owners.pop(str(number - 2000)).amounts.items():
                used[key] -= amount
    return (time.process_time() - started) / count


def measure(count: int) -> dict[str, Figure]:
    """Return all figures, each with the control of the same run."""
    control = run_control(count)
    figures: dict[str, Figure] = {}

    def note(name: str, seconds: float) -> None:
        figures[name] = {
            "value": round(1 / seconds),
            "unit": "decisions/s",
            "control": round(1 / control),
            "ratio": round(control / seconds, 4),
        }

    quotas, names = flat_quotas()
    note("quota_max_decisions_per_second", run_flat(quotas, names, count))
    for rounding in Rounding:
        quotas, names = deep_quotas(rounding)
        load = Contention(quotas, names)
        # Until everything is charged and every quota waits; before that there is no contention.
        load.run(WARM_UP_STARTS)
        load.checks = load.refusals = load.starts = load.woken = 0
        note(f"quota_runtime_{rounding.value}_decisions_per_second", load.run(count // 10))
        print(
            f"  {rounding.value}: {load.starts} starts, {load.checks} checks,"
            f" {load.refusals} refusals, {load.woken} woken, {len(load.running)} running"
        )
        quotas.validate()
        began = time.process_time()
        fork = quotas.fork()
        figures[f"quota_fork_{rounding.value}_ms"] = {
            "value": round((time.process_time() - began) * 1000, 2),
            "unit": "ms",
            "control": 0,
            "ratio": 0,
        }
        began = time.process_time()
        fork.problems()
        print(f"  its first answer: {(time.process_time() - began) * 1000:.2f} ms")
    return figures


def main() -> None:
    """Print the figures, and write them to a file if one is given."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.count)
    for name, figure in figures.items():
        print(f"{name}: {figure['value']} {figure['unit']} (control {figure['control']})")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
