"""The questions that the demo puts to the debug API, each once, and their answers as lines. Pure.

A question whose answer is not there yet is put again later: a forecast needs the insight program's
next renewal, and time travel a record of some seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from tests.demo.load_plan import FAIR

Json = dict[str, Any]

BEHIND: Final = "BehindAccount"
WAIT: Final = "wait"
"""Kind of the change that is none: what waiting does."""
MOST_CHANGES: Final = 3
MOST_NAMES: Final = 3
MOST_UNITS: Final = 100
MOST_DECISIONS: Final = 5
BACK_SECONDS: Final = 20
GPU: Final = "nvidia.com/gpu"
HORIZON_SECONDS: Final = 60
"""For what-if: half a day of the trace."""


class Asker(Protocol):
    """Asks the scheduler's debug API."""

    def __call__(self, path: str, body: Json | None = None) -> object:
        """Return the JSON of a path, posted a body to or not; anything else: no answer."""
        ...


Question = Callable[[Asker], Iterator[str]]
"""Yields the answer as lines; none while there is no answer."""


class Questions:
    """What was not answered yet, in order.

    Args:
        ask: Asks the debug API.
        since: From when on forecasts are told: earlier ones know of too few runs.
    """

    def __init__(self, ask: Asker, since: datetime) -> None:
        self._ask = ask
        self._left: list[tuple[str, Question]] = [
            ("explain", ask_why),
            ("fair share", ask_turn),
            ("try", ask_try),
            ("log", ask_log),
            ("time travel", ask_past),
            ("what-if", ask_what_if),
            ("forecast", lambda ask: ask_when(ask, since)),
        ]

    def answers(self) -> Iterator[list[str]]:
        """Ask what was not answered; yield each answer as lines, as soon as it has come."""
        for entry in tuple(self._left):
            answer = list(entry[1](self._ask))
            if answer:
                self._left.remove(entry)
                yield answer

    def unanswered(self) -> list[str]:
        """Return the names of those that have no answer."""
        return [name for name, _ in self._left]


def ask_why(ask: Asker) -> Iterator[str]:
    """Yield why a unit waits, and what would start it; nothing while none waits."""
    got = _explain(ask)
    if not got:
        return
    yield f"asked why {_key(got)} waits:"
    yield f"  {got['summary']}"
    changes = [each for each in got["changes"] if each["kind"] != WAIT]
    enough = [each for each in changes if each["sufficient"]]
    starts = [each["description"] for each in enough if each.get("practical", True)]
    if starts:
        yield "  Any one of these would start it now:"
        yield from (f"  - {text}" for text in starts[:MOST_CHANGES])
    yield from (f"  {each['description']}" for each in got["changes"] if each["kind"] == WAIT)


def ask_turn(ask: Asker) -> Iterator[str]:
    """Yield why the last unit of a queue with fair shares is not first, once users differ."""
    for queue in _queues(ask) or ():
        if queue["policy"] != FAIR or queue["pending"] < 2:
            continue
        page = ask(f"/debug/queues/{queue['name']}?limit={MOST_UNITS}")
        units = page["units"] if isinstance(page, dict) else []
        pending = [unit for unit in units if unit["position"]]
        got = ask(f"/debug/queueunits/{_key(pending[-1])}/explain") if pending else None
        blockers = got["blockers"] if isinstance(got, dict) else []
        for each in blockers:
            if each["reason"] == BEHIND:
                yield f"asked why {_key(pending[-1])} is not the first of queue {queue['name']}:"
                yield f"  It {each['message']}."
                return


def ask_what_if(ask: Asker) -> Iterator[str]:
    """Yield what would follow from the first change that is a patch of a quota."""
    change = next((each for each in _explain(ask).get("changes", ()) if _is_patch(each)), None)
    if change is None:
        return
    question = {"edits": change["patches"], "horizonSeconds": HORIZON_SECONDS}
    got = ask("/debug/what-if", question)
    if not isinstance(got, dict) or "not known yet" in got["noHorizon"]:
        return
    yield f"asked what would follow: {change['description']}"
    evicted = f"{_count(got['evictedCount'], 'unit')} would be evicted"
    yield f"  {_started(got)}; {evicted if got['evictedCount'] else 'none would be evicted'}."
    horizon = got["horizon"]
    if horizon is not None:
        yield from _horizon(horizon)


def ask_try(ask: Asker) -> Iterator[str]:
    """Yield what would become of a job of one GPU in the queue in which units wait."""
    head = _head(ask)
    if head is None:
        return
    got = ask("/debug/try", _manifest(head["namespace"], head["quota"]))
    if isinstance(got, dict) and got["jobs"]:
        yield f"asked what would become of one more job of 1 GPU of {head['quota']}:"
        yield f"  {got['jobs'][0]['summary']}"


def ask_log(ask: Asker) -> Iterator[str]:
    """Yield what was decided last."""
    got = ask(f"/debug/log?limit={MOST_DECISIONS}")
    entries = got["items"] if isinstance(got, dict) else []
    if len(entries) < MOST_DECISIONS:
        return
    yield "asked what was decided last:"
    for each in entries:
        about = f"{each['kind']:<8} {each['unit']}  {each['reason']}"
        yield f"  {_clock(each['time'])} {about.rstrip()}"


def ask_past(ask: Asker) -> Iterator[str]:
    """Yield how many units waited some time ago, and do now."""
    state = ask("/debug/insight")
    now = _waiting(ask, "")
    if not isinstance(state, dict) or now is None:
        return
    then = datetime.fromisoformat(state["stateAt"]) - timedelta(seconds=BACK_SECONDS)
    before = _waiting(ask, f"&at={then.strftime('%Y-%m-%dT%H:%M:%SZ')}")
    if before is not None:
        yield f"asked what was {BACK_SECONDS} s ago:"
        yield f"  {_count(before, 'unit')} waited then, {now} now."


def ask_when(ask: Asker, since: datetime) -> Iterator[str]:
    """Yield when units of the queue with most forecasts start: one in the middle, and the last.

    Units of which no times are told yet are left out.
    """
    pages = [ask(f"/debug/queues/{name}/forecast?limit=100") for name in _queue_names(ask)]
    found = [(page, _foreseen(page)) for page in pages if isinstance(page, dict)]
    page, units = max(found, key=lambda each: len(each[1]), default=({}, []))
    if not units or datetime.fromisoformat(units[0]["computedAt"]) < since:
        return
    middle, last = units[len(units) // 2], units[-1]
    yield f"asked when {_key(middle)} starts:"
    got = _times(middle)
    yield f"  {got[0].upper()}{got[1:]}: a forecast of {middle['ageSeconds']:.0f} s ago."
    if last is not middle:
        count = _count(page["total"], "unit")
        yield (
            f"  Of the {count} that waited in queue {page['queue']}, {_key(last)} starts last:"
            f" {_times(last)}."
        )


# --- inside ---------------------------------------------------------------------------------------


def _queues(ask: Asker, more: str = "") -> list[Json] | None:
    page = ask(f"/debug/queues?limit=100{more}")
    return page["items"] if isinstance(page, dict) else None


def _foreseen(page: Json) -> list[Json]:
    return [unit for unit in page["units"] if unit["outlook"] == "times"]


def _queue_names(ask: Asker) -> list[str]:
    return [queue["name"] for queue in _queues(ask) or () if queue["pending"]]


def _waiting(ask: Asker, more: str) -> int | None:
    queues = _queues(ask, more)
    return None if queues is None else sum(queue["pending"] for queue in queues)


def _head(ask: Asker) -> Json | None:
    heads = [queue["head"] for queue in _queues(ask) or ()]
    return next((head for head in heads if head is not None and head["refusal"]), None)


def _explain(ask: Asker) -> Json:
    """Return why the first unit that was refused waits; {}: none does, or it has just started."""
    head = _head(ask)
    if head is None:
        return {}
    got = ask(f"/debug/queueunits/{head['namespace']}/{head['name']}/explain?changes=true")
    return got if isinstance(got, dict) and got["verdict"] == "waiting" else {}


def _is_patch(change: Json) -> bool:
    return bool(change["kind"] == "quotaMax" and change["sufficient"] and change["patches"])


def _manifest(namespace: str, quota: str) -> Json:
    container = {"name": "main", "image": "image", "resources": {"limits": {GPU: "1"}}}
    labels = {"quota.scheduling.koordinator.sh/name": quota}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "one-more", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def _started(got: Json) -> str:
    names = [each["unit"] for each in got["started"]][:MOST_NAMES]
    more = got["startedCount"] - len(names)
    started = f"{', '.join(names)}{f' and {more} more' if more else ''}"
    return f"At once {started or 'nothing'} would start"


def _horizon(horizon: Json) -> Iterator[str]:
    for queue in horizon["queues"]:
        waits = queue["waitP50"]
        if waits is not None and waits["isClear"]:
            before, after = waits["before"]["p50"], waits["after"]["p50"]
            if before is not None and after is not None:
                yield (
                    f"  Within {horizon['seconds']:.0f} s the median wait in queue"
                    f" {queue['name']} would go from {before:.0f} s to {after:.0f} s."
                )


def _times(got: Json) -> str:
    early, middle, late, end = (
        got[name] and _clock(got[name]) for name in ("startP10", "startP50", "startP90", "endP50")
    )
    if early is None or middle is None:
        return "beyond the horizon"
    between = f"between {early} and {late or 'the horizon'}, in half of the futures by {middle}"
    return f"{between}{f', and ends at {end}' if end else ''}"


def _clock(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S")


def _key(unit: Json) -> str:
    return f"{unit['namespace']}/{unit['name']}"


def _count(number: int, of: str) -> str:
    return f"{number} {of}{'' if number == 1 else 's'}"
