"""The numbers of replays, as JSON.

Times are seconds, and amounts are in base units: CPU in thousandths of a core, memory in bytes.
Nothing in it depends on the machine or the hour, so the same replay gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from queue_insight.replay.jobs import Trace
from queue_insight.replay.replay_run import Outcome
from queue_insight.replay.tally import HOUR, Bottleneck, Life, blocked_hours
from shared_api.timestamps import rfc3339

Json = dict[str, Any]

QUICK_SECONDS: Final = 60.0
"""Waits below count as none: whether a job starts within a minute is what users notice."""

MOST_STARVED: Final = 20
MOST_BOTTLENECKS: Final = 20
PERCENTS: Final = (50, 90, 99)


def build_report(
    name: str, form: str, trace: Trace, seed: int, runs: Sequence[tuple[str, Outcome]]
) -> Json:
    """Return the report of a trace and its replays; the others are compared with the first."""
    described = [describe_run(label, outcome) for label, outcome in runs]
    began = None if trace.began is None else rfc3339(trace.began)
    skipped = [{"why": why, "count": count} for why, count in trace.skipped.items()]
    return {
        "trace": {
            "file": name,
            "format": form,
            "jobs": len(trace.jobs),
            "seconds": _short(trace.jobs[-1].submit - trace.jobs[0].submit),
            "began": began,
            "skipped": skipped,
        },
        "seed": seed,
        "runs": described,
        "comparisons": [compare_runs(described[0], other) for other in described[1:]],
        "marginal": [],
    }


def to_bytes(report: Json) -> bytes:
    """Return the report as JSON text."""
    return msgspec.json.format(msgspec.json.encode(report, order="deterministic"), indent=1) + b"\n"


# --- one run ------------------------------------------------------------------------------------


def describe_run(name: str, outcome: Outcome) -> Json:
    """Return the numbers of one replay."""
    lives, tally, step = outcome.lives, outcome.tally, outcome.step
    until = max(outcome.seconds, 1.0)
    finished = [life for life in lives if life.finished is not None]
    waiting = {quota: _shorts(series.averages(until)) for quota, series in tally.waiting.items()}
    total = waiting.pop("")
    return {
        "name": name,
        "finished": len(finished),
        "evictions": sum(life.evictions for life in lives),
        "lostSeconds": _short(sum(life.lost for life in lives)),
        "seconds": _short(outcome.seconds),
        "stepSeconds": int(step),
        "waits": waits_of(lives),
        "neverStarted": [{"why": why, "count": count} for why, count in outcome.never.items()],
        "requestNothing": [
            {"tenant": tenant, "jobs": count} for tenant, count in sorted(tally.unrequested.items())
        ],
        "use": _describe_use(outcome, until),
        "queueLength": {"total": total, "byQuota": dict(sorted(waiting.items()))},
        "fairness": describe_fairness(lives),
        "starved": [_describe_life(life) for life in most_starved(lives)],
        "bottlenecks": _describe_bottlenecks(outcome),
        "bottleneckHours": _describe_hours(outcome),
    }


def waits_of(lives: Sequence[Life]) -> Json:
    """Return how long jobs waited for their admission, all together and by tenant."""
    tenants: dict[str, list[Life]] = {}
    for life in lives:
        tenants.setdefault(life.tenant, []).append(life)
    by_tenant = {tenant: _describe_waits(own) for tenant, own in sorted(tenants.items())}
    return {"all": _describe_waits(lives), "byTenant": by_tenant}


def _describe_waits(lives: Iterable[Life]) -> Json:
    admitted = [life for life in lives if life.admitted is not None]
    waits = sorted(life.wait for life in admitted)
    found: Json = {"jobs": len(waits)}
    for percent in PERCENTS:
        found[f"p{percent}"] = _short(percentile(waits, percent))
    found["max"] = _short(waits[-1] if waits else 0.0)
    found["mean"] = _short(sum(waits) / len(waits) if waits else 0.0)
    found["total"] = _short(sum(waits))
    found["waited"] = sum(wait >= QUICK_SECONDS for wait in waits)
    found["every5Percent"] = [_short(percentile(waits, percent)) for percent in range(0, 101, 5)]
    return found


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the smallest value that so many percent do not exceed; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _describe_use(outcome: Outcome, until: float) -> Json:
    found: dict[str, Json] = {}
    for (quota, resource), series in sorted(outcome.tally.use.items()):
        found.setdefault(quota, {})[resource] = {
            "limit": outcome.limits.get(quota, {}).get(resource),
            "used": [round(value) for value in series.averages(until)],
        }
    return found


def describe_fairness(lives: Sequence[Life]) -> Json:
    """Return how alike tenants are treated.

    The stretch of a tenant is the time from submission to end of its jobs, divided by the time that
    they ran: 1 if none waited. Jain's index of the stretches is 1 if all are alike, and 1/n if one
    of n tenants has all of it.
    """
    spent: dict[str, list[float]] = {}
    for life in lives:
        if life.finished is not None:
            whole, ran = spent.setdefault(life.tenant, [0.0, 0.0])
            took = life.finished - (life.finished if life.began is None else life.began)
            spent[life.tenant] = [whole + life.finished - life.submit, ran + took]
    stretches = {tenant: whole / ran for tenant, (whole, ran) in sorted(spent.items()) if ran > 0}
    squares = sum(value**2 for value in stretches.values())
    jain = sum(stretches.values()) ** 2 / (len(stretches) * squares) if squares else 1.0
    by_tenant = {tenant: _short(value) for tenant, value in stretches.items()}
    return {"jain": _short(jain), "stretch": by_tenant}


def most_starved(lives: Sequence[Life]) -> list[Life]:
    """Return the jobs that waited longest; those that never started come first."""
    waited = [life for life in lives if life.admitted is None or life.wait >= QUICK_SECONDS]
    waited.sort(key=lambda life: (life.admitted is not None, -life.wait, life.job.line))
    return waited[:MOST_STARVED]


def _describe_life(life: Life) -> Json:
    job = life.job
    return {
        "line": job.line,
        "name": job.name,
        "tenant": life.tenant,
        "submitted": _short(life.submit),
        "wait": None if life.admitted is None else _short(life.wait),
        "run": _short(job.run),
        "pods": job.pods,
        "requests": job.requests,
        "priority": job.priority,
        "evictions": life.evictions,
    }


def _describe_bottlenecks(outcome: Outcome) -> list[Json]:
    hours = blocked_hours(outcome.tally.blocked)
    ranked = sorted(hours.items(), key=lambda item: (-item[1], item[0]))
    return [
        {**_name(what), "jobHours": round(count, 2)} for what, count in ranked[:MOST_BOTTLENECKS]
    ]


def _describe_hours(outcome: Outcome) -> list[Json]:
    """Return the worst bottleneck of each step, and how many units waited for it on average."""
    found = []
    for place, counts in sorted(outcome.tally.blocked.items()):
        if counts:
            what, seconds = min(counts.items(), key=lambda item: (-item[1], item[0]))
            waiting = round(seconds / outcome.step, 2)
            found.append({"at": int(place * outcome.step), **_name(what), "waiting": waiting})
    return found


def _name(what: Bottleneck) -> Json:
    return {"quota": what.quota, "resource": what.resource, "reason": what.reason}


# --- several ------------------------------------------------------------------------------------

_COMPARED: Final = ("p50", "p90", "p99", "max", "mean", "total")


def compare_runs(first: Json, other: Json) -> Json:
    """Return the numbers of another replay less those of the first."""
    tenants = sorted(first["waits"]["byTenant"])
    of_others = other["waits"]["byTenant"]
    return {
        "name": other["name"],
        "with": first["name"],
        "waits": _differences(first["waits"]["all"], other["waits"]["all"]),
        "byTenant": {
            tenant: _differences(first["waits"]["byTenant"][tenant], of_others[tenant])
            for tenant in tenants
            if tenant in of_others
        },
        "seconds": _short(other["seconds"] - first["seconds"]),
        "evictions": other["evictions"] - first["evictions"],
        "lostSeconds": _short(other["lostSeconds"] - first["lostSeconds"]),
        "jain": _short(other["fairness"]["jain"] - first["fairness"]["jain"]),
    }


def _differences(first: Mapping[str, float], other: Mapping[str, float]) -> Json:
    return {key: _short(other[key] - first[key]) for key in _COMPARED}


def describe_margin(what: Mapping[str, str], more: str, first: Json, other: Outcome) -> Json:
    """Return what one unit more of a quota has saved.

    Args:
        what: The bottleneck, as the report names it.
        more: How much more there was.
        first: The replay without it.
        other: The replay with it.
    """
    base, waits = first["waits"]["all"], waits_of(other.lives)["all"]
    return {
        "quota": what["quota"],
        "resource": what["resource"],
        "more": more,
        "savedWaitHours": _short((base["total"] - waits["total"]) / HOUR),
        "p50": _short(waits["p50"] - base["p50"]),
        "p90": _short(waits["p90"] - base["p90"]),
    }


def _short(number: float) -> float:
    return round(number, 3)


def _shorts(numbers: Iterable[float]) -> list[float]:
    return [round(number, 2) for number in numbers]
