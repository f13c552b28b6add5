"""The numbers of replays, as JSON.

Times are seconds, and amounts are in base units: CPU in thousandths of a core, memory in bytes.
Nothing in it depends on the machine or the hour, so the same replay gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from queue_insight.replay.jobs import Trace
from queue_insight.replay.replay_run import Outcome
from queue_insight.replay.replayed_world import NO_NAMESPACE
from queue_insight.replay.tally import HOUR, Bottleneck, Life, blocked_hours
from shared_api.submitters import read_submitter
from shared_api.timestamps import rfc3339
from shared_api.well_known_labels import USER

Json = dict[str, Any]

PartyOf = Callable[[Life], str]
"""Returns whom a job counts for."""

QUICK_SECONDS: Final = 60.0
"""Waits below count as none: whether a job starts within a minute is what users notice."""

MOST_STARVED: Final = 20
MOST_BOTTLENECKS: Final = 20
PERCENTS: Final = (50, 90, 99)

MOST_USERS: Final = 20
"""Users of each replay that are named: a trace may have thousands."""


def build_report(
    name: str, form: str, trace: Trace, seed: int, runs: Sequence[tuple[str, Outcome]]
) -> Json:
    """Return the report of a trace and its replays; the others are compared with the first."""
    users = worst_users([outcome for _, outcome in runs])
    described = [describe_run(label, outcome, users) for label, outcome in runs]
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


def describe_run(name: str, outcome: Outcome, users: Sequence[str] = ()) -> Json:
    """Return the numbers of one replay.

    Args:
        name: What it is called.
        outcome: What it has shown.
        users: Those that are named, of all replays of a report the same: see `worst_users`.
    """
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
        "users": describe_users(lives, users),
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
    return {"all": _describe_waits(lives), "byTenant": _waits_by(lives, tenant_of)}


def tenant_of(life: Life) -> str:
    """Return the tenant of a job."""
    return life.tenant


def user_of(life: Life) -> str:
    """Return the user whom a job counts for: where it names none, its namespace."""
    job = life.job
    namespace = job.namespace or life.tenant or NO_NAMESPACE
    return read_submitter(namespace, {USER: job.user}, {}, are_proved=False).user


def worst_users(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the users whose p90 is worst in any of these replays; none if no job names its user.

    There are at most `MOST_USERS` of each replay.
    """
    found: set[str] = set()
    for outcome in outcomes:
        if any(life.job.user for life in outcome.lives):
            waits = _waits_by(outcome.lives, user_of)
            found.update(worst_first(waits)[:MOST_USERS])
    return sorted(found)


def worst_first(waits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the names of those that waited, by their p90, the longest first."""
    return sorted(waits, key=lambda name: (-waits[name]["p90"], name))


def describe_users(lives: Sequence[Life], users: Sequence[str]) -> Json | None:
    """Return how users are treated; None if no user is to be named.

    Args:
        lives: All jobs.
        users: Those that are named; all of them count for Jain's index.
    """
    if not users:
        return None
    waits, fairness = _waits_by(lives, user_of), describe_fairness(lives, user_of)
    stretch = fairness["stretch"]
    return {
        "count": len(waits),
        "jain": fairness["jain"],
        "stretch": {user: stretch[user] for user in users if user in stretch},
        "waits": {user: waits[user] for user in users if user in waits},
    }


def _waits_by(lives: Iterable[Life], party_of: PartyOf) -> dict[str, Json]:
    parties: dict[str, list[Life]] = {}
    for life in lives:
        parties.setdefault(party_of(life), []).append(life)
    return {name: _describe_waits(own) for name, own in sorted(parties.items())}


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


def describe_fairness(lives: Sequence[Life], party_of: PartyOf = tenant_of) -> Json:
    """Return how alike tenants are treated, or whom else `party_of` tells of a job.

    The stretch of a tenant is the time from submission to end of its jobs, divided by the time that
    they ran: 1 if none waited. Jain's index of the stretches is 1 if all are alike, and 1/n if one
    of n tenants has all of it.
    """
    stretches = stretches_of(
        (
            party_of(life),
            life.finished - life.submit,
            life.finished - (life.finished if life.began is None else life.began),
        )
        for life in lives
        if life.finished is not None
    )
    by_tenant = {tenant: _short(value) for tenant, value in stretches.items()}
    return {"jain": jain_index(stretches.values()), "stretch": by_tenant}


def stretches_of(jobs: Iterable[tuple[str, float, float]]) -> dict[str, float]:
    """Return the stretch of each party, of jobs with their party, time to the end, and run time."""
    spent: dict[str, list[float]] = {}
    for party, whole, ran in jobs:
        total = spent.setdefault(party, [0.0, 0.0])
        total[0] += whole
        total[1] += ran
    return {party: whole / ran for party, (whole, ran) in sorted(spent.items()) if ran > 0}


def jain_index(values: Iterable[float]) -> float:
    """Return Jain's index with three digits: 1 if all values are alike, or there are none."""
    known = list(values)
    squares = sum(value**2 for value in known)
    return _short(sum(known) ** 2 / (len(known) * squares) if squares else 1.0)


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
        "users": _compare_users(first["users"], other["users"]),
    }


def _compare_users(first: Json | None, other: Json | None) -> Json | None:
    if first is None or other is None:
        return None
    return {
        "jain": _short(other["jain"] - first["jain"]),
        "waits": {
            user: _differences(waits, other["waits"][user])
            for user, waits in first["waits"].items()
            if user in other["waits"]
        },
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
