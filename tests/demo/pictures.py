"""The pictures of README.md: ``python -m tests.demo.pictures`` takes them (`make pictures`).

They show the page of a running demo. Its load is played more slowly than usual, and beside it one
tenant runs a sweep of similar jobs, for which it borrows: so there are units whose forecasts are
based on many runs. The unit is taken early, and the overview later, when several tenants borrow. A
Chromium takes each view in both color schemes, a moment apart.
"""

from __future__ import annotations

import copy
import json
import random
import re
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.error import HTTPError

from playwright.sync_api import Browser, Page

from queue_insight.forecast.all_units import PATHS
from shared_api.client.http_transport import HttpTransport
from shared_api.client.kube_config import open_connection
from shared_api.client.resource_types import JOBS
from shared_api.process.clock import Clock, SystemClock
from shared_api.timestamps import parse_time
from tests.demo.demo_process import DemoProcess, demo_starter
from tests.demo.demo_settings import ALL_JOBS
from tests.demo.json_api import JsonApi
from tests.demo.load_plan import GPU, REAL_GPUS, RUN_SECONDS, LoadPlan, TenantPlan, build_plan
from tests.demo.make_slice import SLICE, read_rows
from tests.page.window_kit import Scheme, find_chromium, launched_chromium, opened
from tests.tidy.source_tree import ROOT

Json = dict[str, Any]
T = TypeVar("T")

FOLDER: Final = ROOT / "docs" / "pictures"
SCHEMES: Final[tuple[Scheme, ...]] = ("light", "dark")
SIZE: Final = (1280, 1000)
TALLEST: Final = 1600
"""Pixels of a picture: what is below is not needed to see what the page is."""

LOAD_SECONDS: Final = 1500.0
"""Over how long the load is submitted. In its first minutes only the sweep waits: a future of it
takes a quarter of a second. Later the load's large jobs do, some of them until nothing arrives any
more: then a future takes as long as twenty of those."""
SWEEP_JOBS: Final = 2000
SWEEP_WAITING: Final = 150
"""So many jobs of the sweep wait at any time: the last of them for a minute, longer than a forecast
takes. If all were submitted at once, each future would repeat that, and more would arrive in it
than can run."""
SWEEP_AT_ONCE: Final = 5
"""The most that are submitted in a turn: their units are seen a moment later."""
SWEEP_SECONDS: Final = (4.0, 8.0)
"""The shortest and the longest run of the sweep: two hundred have ended after 90 seconds."""
LEAST_FUTURES: Final = PATHS
"""Futures that a forecast needs to be shown: all that it has when its time suffices."""
LEAST_RUNS: Final = 200
"""Runs like it that a unit needs for its forecast to be shown."""
LEAST_WAIT_SECONDS: Final = 10.0
"""How long the unit that is shown waits at least, while it is looked at."""
BORROWERS: Final = 2
"""Quotas that use more than their min when the overview is taken."""
FIND: Final = "Find the smallest changes"
FINDING: Final = "Trying changes"
"""The button of a unit's changes, before and while they are sought."""
UNDERSTOOD: Final = ("OverQuotaMax", "OverParentMax")
"""The reason of the unit that is shown, one of these: they need no further explanation."""
UNKNOWN: Final = (
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.TOO_MANY_REQUESTS,
)
READY_SECONDS: Final = 120.0
TURN_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 3.0
"""How often it is looked at whether there is something to show: that costs the programs time."""
ANSWER_SECONDS: Final = 30.0
STOP_SECONDS: Final = 60.0
# The user's proxies are not for loopback.
_opener: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NoPicture(Exception):
    """A picture cannot be taken; the message says why."""


def main() -> int:
    """Take the pictures, and return the exit status."""
    try:
        with (
            launched_chromium(find_chromium()) as browser,
            tempfile.TemporaryDirectory(prefix="koord-queue-pictures-") as folder,
            demo_starter(Path(folder)) as start,
        ):
            demo = start("--jobs", str(ALL_JOBS), "--submit-seconds", str(LOAD_SECONDS))
            demo.wait_for_output("Ctrl-C ends it", READY_SECONDS)
            print("pictures: running the demo; seven minutes", flush=True)
            take_all(browser, demo, SystemClock())
            demo.process.send_signal(signal.SIGINT)
            demo.wait(STOP_SECONDS)
    except (NoPicture, LookupError, AssertionError) as error:
        sys.stderr.write(f"pictures: {error}\n")
        return 1
    return 0


def take_all(browser: Browser, demo: DemoProcess, clock: Clock) -> None:
    """Keep jobs of the sweep waiting, and take each picture once there is something to see on it.

    Raises:
        NoPicture: There is not while the load lasts.
    """
    page_url = _printed(demo, r"In a browser: (\S+)/")
    debug_url = _printed(demo, r"KOORD_QUEUE_SERVER=(\S+)")
    ends = clock.monotonic() + LOAD_SECONDS
    plan = build_plan(read_rows(SLICE), shape=REAL_GPUS, submit_seconds=LOAD_SECONDS)
    jobs = sweep(plan, random.Random(1))

    def play_until(find: Callable[[str], T | None], missing: str) -> T:
        look_at = clock.monotonic()
        while clock.monotonic() < ends:
            if clock.monotonic() >= look_at:
                if (found := find(debug_url)) is not None:
                    return found
                look_at = clock.monotonic() + LOOK_SECONDS
            lacking = max(0, SWEEP_WAITING - pending_in(debug_url, plan))
            for body in islice(jobs, min(SWEEP_AT_ONCE, lacking)):
                api.create(JOBS, body)
            clock.sleep(TURN_SECONDS)
        raise NoPicture(f"{missing}; on a busy machine the programs have no time for that")

    with connected(_printed(demo, r"KUBECONFIG=(\S+)"), clock) as api:
        unit = play_until(
            find_unit,
            f"no unit that waits has a forecast of {LEAST_FUTURES} futures and {LEAST_RUNS} runs",
        )
        print(f"pictures: {unit['similarRuns']} runs are like {unit['namespace']}/{unit['name']}")
        take(browser, page_url, "unit", f"/units/{unit['namespace']}/{unit['name']}")
        play_until(find_borrowers, f"no {BORROWERS} quotas borrow at the same time")
        take(browser, page_url, "overview", "/")


def pending_in(debug_url: str, plan: LoadPlan) -> int:
    """Return how many units wait in the queue of the sweep; while that is not known, enough."""
    name = tenant_of(plan).name
    queues = _ask(f"{debug_url}/debug/queues?limit=100", otherwise={"items": []})["items"]
    return next((queue["pending"] for queue in queues if queue["name"] == name), SWEEP_WAITING)


def find_borrowers(debug_url: str) -> list[str] | None:
    """Return the quotas that borrow GPUs now, if they are enough to be looked at."""
    trees = _ask(f"{debug_url}/debug/quotas", otherwise={"items": []})["items"]
    found = borrowers([quota for tree in trees for quota in tree["children"]])
    return found if len(found) >= BORROWERS else None


def borrowers(quotas: Sequence[Json]) -> list[str]:
    """Return those of some quotas that use more GPUs than they are guaranteed."""
    return [
        quota["name"]
        for quota in quotas
        if int(quota["used"].get(GPU, 0)) > int(quota["min"].get(GPU, 0))
    ]


def tenant_of(plan: LoadPlan) -> TenantPlan:
    """Return whose sweep it is: the tenant that may borrow most."""
    return max(plan.tenants, key=lambda each: each.max_gpus - each.min_gpus)


def sweep(plan: LoadPlan, rng: random.Random) -> Iterator[Json]:
    """Yield jobs of one GPU of one tenant."""
    tenant = tenant_of(plan)
    job = next(each for each in plan.jobs if each.namespace == tenant.name and each.gpus == 1)
    for number in range(1, SWEEP_JOBS + 1):
        body = copy.deepcopy(job.body)
        body["metadata"]["name"] = f"sweep-{number:03}"
        notes = {RUN_SECONDS: f"{rng.uniform(*SWEEP_SECONDS):.3f}"}
        body["spec"]["template"]["metadata"]["annotations"] = notes
        yield body


def find_unit(debug_url: str) -> Json | None:
    """Return a unit to show, if there is one now that waits for a reason that all understand."""
    unit = choose_unit(list(forecasts(debug_url)))
    if unit is None:
        return None
    path = f"{debug_url}/debug/queueunits/{unit['namespace']}/{unit['name']}/explain"
    blockers = _ask(path, otherwise={"blockers": []})["blockers"]
    return unit if blockers and blockers[0]["reason"] in UNDERSTOOD else None


def forecasts(debug_url: str) -> Iterator[Json]:
    """Yield the debug API's forecasts of all units that wait; none before the first."""
    for queue in _ask(f"{debug_url}/debug/queues?limit=100", otherwise={"items": []})["items"]:
        path = f"{debug_url}/debug/queues/{queue['name']}/forecast?limit=500"
        if queue["pending"]:
            yield from _ask(path, otherwise={"units": []})["units"]


def choose_unit(found: Sequence[Json]) -> Json | None:
    """Return one of the units with a forecast of enough futures and runs.

    It starts before most of them, so that a small change is enough for it, and not at once: others
    may have started since the forecast was made.
    """
    fit = [
        each
        for each in found
        if each["outlook"] == "times"
        and each["similarRuns"] >= LEAST_RUNS
        and each["sample"] >= LEAST_FUTURES
        and each["startP90"] is not None
        and _seconds_until_start(each) >= LEAST_WAIT_SECONDS
    ]
    fit.sort(key=lambda each: (each["startP50"], each["name"]))
    return fit[len(fit) // 4] if fit else None


def _seconds_until_start(unit: Json) -> float:
    """Return in how many seconds a unit starts, by the median of its forecast."""
    computed = parse_time(unit["computedAt"])
    return (parse_time(unit["startP50"]) - computed).total_seconds() - float(unit["ageSeconds"])


def take(browser: Browser, url: str, name: str, path: str) -> None:
    """Take a view in both color schemes."""
    with opened(browser, url, size=SIZE) as window:
        window.listen()
        window.open(path)
        window.sees("Live")
        find = window.page.get_by_role("button", name=FIND)
        if find.count():
            find.click()
            find.wait_for(state="detached")
            window.page.get_by_role("button", name=FINDING).wait_for(state="detached")
        for scheme in SCHEMES:
            window.page.emulate_media(color_scheme=scheme)
            _shoot(window.page, FOLDER / f"{name}-{scheme}.png")


def _shoot(page: Page, path: Path) -> None:
    height = min(page.evaluate("() => document.documentElement.scrollHeight"), TALLEST)
    page.screenshot(
        path=path, full_page=True, clip={"x": 0, "y": 0, "width": SIZE[0], "height": height}
    )
    print(f"pictures: {path.relative_to(ROOT)}")


@contextmanager
def connected(kubeconfig: str, clock: Clock) -> Iterator[JsonApi]:
    """Open connections to the demo's API server."""
    api = JsonApi(HttpTransport(open_connection(kubeconfig, None, clock=clock).settings, clock))
    try:
        yield api
    finally:
        api.close()


def _printed(demo: DemoProcess, pattern: str) -> str:
    found = re.search(pattern, demo.output)
    if found is None:
        raise NoPicture(f"the demo has not printed {pattern}")
    return found[1]


def _ask(url: str, otherwise: Json | None = None) -> Json:
    """Return an answer; `otherwise`, if given, where it is not known yet, or no longer."""
    try:
        with _opener.open(url, timeout=ANSWER_SECONDS) as answer:
            told: Json = json.load(answer)
            return told
    except HTTPError as error:
        if otherwise is None or error.code not in UNKNOWN:
            raise
        return otherwise


if __name__ == "__main__":
    sys.exit(main())
