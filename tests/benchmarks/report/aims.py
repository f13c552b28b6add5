"""What figures should be: the only place that says so.

An aim that is not met is in bold in the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.benchmarks.report.results import Result


@dataclass(frozen=True, kw_only=True)
class Aim:
    """What a figure should be.

    Attributes:
        text: As the report has it.
        least: The least that is good.
        most: The most that is good.
        of_ratio: Whether these are about the ratio to the control.
    """

    text: str
    least: float | None = None
    most: float | None = None
    of_ratio: bool = False

    def judged(self, result: Result) -> float | None:
        """Return what is judged of a figure."""
        return result.ratio if self.of_ratio else result.value

    def is_met(self, result: Result) -> bool:
        """Return whether a figure is as it should be; what no number says is."""
        value = self.judged(result)
        if value is None:
            return True
        return (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )

    def share(self, result: Result) -> float | None:
        """Return how a figure is to its aim: 1 as it should be, below 1 better; None: no number."""
        value = self.judged(result)
        if not value:
            return None
        if self.most:
            return value / self.most
        return self.least / value if self.least else None


def at_least(number: float, text: str = "", *, of_ratio: bool = False) -> Aim:
    """Return an aim from below."""
    return Aim(text=f"≥ {text or f'{number:,g}'}", least=number, of_ratio=of_ratio)


def at_most(number: float, text: str = "", *, of_ratio: bool = False) -> Aim:
    """Return an aim from above."""
    return Aim(text=f"≤ {text or f'{number:,g}'}", most=number, of_ratio=of_ratio)


_KIND: Final = at_most(1.3, of_ratio=True)

AIMS: Final[dict[str, Aim]] = {
    "decisions_per_second": at_least(30_000),
    "decisions_growth": at_most(1.3),
    "runtime_decisions_per_second": at_least(3_000),
    "runtime_decisions_per_second_half_up": at_least(3_000),
    "fork_ms": at_most(50),
    "fork_lock_ms": at_most(10),
    "replayed_jobs_per_second": at_least(0.1, "0.1 of it", of_ratio=True),
    "preemption_choice_ms": at_most(5),
    "probe_ms_max": Aim(text="every probe is answered"),
    "scheduler_rss_mb_100k": at_most(400),
    "many_queues_rss_mb": at_most(400),
    "many_queues_idle_percent": at_most(1),
    "many_queues_fork_lock_ms": at_most(10),
    "debug_queues_ms_p99": at_most(50),
    "debug_queues_500_ms_p99": at_most(50),
    "restart_seconds": at_most(10),
    "takeover_seconds": at_most(17),
    "scheduler_whole_cpu_ms": at_most(1.1),
    "scheduler_whole_voluntary": at_most(10),
    "admission_ratio_to_bare_loop": at_least(0.9),
    "release_to_start_ms_p99": Aim(text="≤ 100 + the API's time"),
    "controllers_cpu_ms_per_unit": at_most(1.5),
    "controllers_rss_mb_10k": at_most(250),
    "controllers_rss_mb_10k_mix": at_most(250),
    "kueue_shape_wall_seconds": at_most(130, "130 (quiet machine)"),
    "kueue_shape_wall_seconds_qps50": at_most(360),
    "kueue_shape_over_quota_events": Aim(text="0", most=0),
    "kueue_shape_api_cpu_ms_per_unit": at_most(1.0, "1.0 of it", of_ratio=True),
    "scheduler_cpu_ms_per_unit": at_most(1.0, "1.0"),
    "scheduler_rss_mb_15k": at_most(150),
    "explain_p99_ms": at_most(10),
    "changes_busy_ms": at_most(200),
    "what_if_all_ms": at_most(1000, "1000"),
    "visibility_first_page_ms": at_most(200),
    "visibility_next_page_ms": at_most(200),
    "visibility_namespace_page_ms": at_most(200),
    "visibility_queue_page_ms": at_most(200),
    "insight_cost_ratio": at_least(0.97),
    "insight_cost_cpu_ratio": at_least(0.97),
    "insight_cost_release_to_start_ms_p99": at_most(1.05, of_ratio=True),
    "page_cost_release_to_start_ms_p99": at_most(1.05, of_ratio=True),
    "page_cost_scheduler_cores": Aim(text="≤ 0.05 more"),
    "audit_slice_ms": at_most(2),
}


def aim_of(name: str) -> Aim | None:
    """Return what a figure should be, if anybody has said so."""
    return _KIND if name.startswith("job_cpu_us_") else AIMS.get(name)
