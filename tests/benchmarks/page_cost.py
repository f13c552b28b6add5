"""What open pages cost the scheduler: the time from a release to the next start, and its CPU.

Turns with and without 200 pages, in changing order, beside one scheduler and one insight program.
Units wait in full quotas, by default 10,000. Others are released one by one, so something changes
in each second, and each page asks again in each second. The pages are those of a hundred people who
have logged in, two each, from an address of their own. A fifth of them may read the units of one
namespace only: answers for them are computed for each, those of the others are shared.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

import httpx
import msgspec

from shared_api.client.resource_types import QUEUE_UNITS
from tests.benchmarks import release_latency
from tests.benchmarks.cluster_world import ClusterWorld
from tests.benchmarks.figures import Figure, percentile
from tests.benchmarks.followed_scheduler import CORES, pin, pin_others, started
from tests.benchmarks.load_player import NAMESPACE
from tests.benchmarks.page_viewers import HOST, READY, Opened, address_of
from tests.benchmarks.process_usage import Meter, usage
from tests.benchmarks.quota_tree_objects import await_queues, create_quotas, quota
from tests.benchmarks.standing_units import queue_name, start_first, waiting_name, write_copies
from tests.charts.render import as_manifest
from tests.cluster.program_process import ROOT, ProgramProcess
from tests.cluster.rbac_objects import binding, role
from tests.tls_files import CERTIFICATE, KEY, client_context

QUEUES: Final = 20
STANDING: Final = 10_000
RELEASES: Final = 300
"""The slowest three of a turn are above its p99."""
PAIRS: Final = 8
"""Many short ones: what else a machine does is then the same in both turns of most pairs."""
PAGES: Final = 200
PEOPLE: Final = 100
RESTRICTED: Final = 20
"""So many of them may read the units of one namespace only."""
SETTLE_SECONDS: Final = 20.0
PER_SETTLE_SECOND: Final = 1000
"""Units that are read, and forecast the first time, in each further second."""
VIEWS: Final = (
    *("/page/overview",) * 4,
    "/page/jobs?limit=200",
    "/page/jobs?limit=200&filter=state:waiting&sort=-created",
    "/page/over-time?range=1d",
    f"/page/queues/{queue_name(1)}?limit=100",
    f"/page/queues/{release_latency.QUOTA}?limit=100",
    f"/page/units/{NAMESPACE}/{waiting_name(queue_name(7), 7)}",
)
"""What people look at: four of ten at the overview, and two at all jobs."""
ADMINS: Final = "system:masters"
READER: Final = "reads-units"
PAGE_FLAGS: Final = (
    "--page-address=0.0.0.0:0",
    f"--page-tls-certificate={CERTIFICATE}",
    f"--page-tls-key={KEY}",
)


class Turn(NamedTuple):
    """One turn: the times of releases in ms, cores that were used meanwhile, and answers."""

    starts: list[float]
    cores: Mapping[str, float]
    seen: Mapping[str, float]


@dataclass
class Viewing:
    """What the pages saw, once they are closed."""

    seen: dict[str, float] = field(default_factory=dict)


def run(units: int | None = None, *, quick: bool = False) -> list[Figure]:
    """Measure.

    Args:
        units: How many wait; None: as many as by default.
        quick: A tenth of the units, and one pair.
    """
    standing, pairs, releases = (1000, 1, 50) if quick else (STANDING, PAIRS, RELEASES)
    standing = units or standing
    people = {_name(each): [] if _is_restricted(each) else [ADMINS] for each in range(PEOPLE)}
    with ClusterWorld(users=people) as world:
        _prepare(world, standing)
        pin_others(world.plane.pids)
        config = world.plane.kubeconfig
        flags = (*PAGE_FLAGS, f"--kubeconfig={config}")
        with started(config, insight=True, cores=CORES[-1:], insight_flags=flags) as programs:
            await_queues(world.client(), QUEUES + 1)
            cookies = _log_in(world, programs["insight"].port_of("--page-address"))
            time.sleep(SETTLE_SECONDS + standing / PER_SETTLE_SECOND)
            turns = [
                {on: _play(world, programs, releases, cookies * on) for on in order}
                for order in ([True, False] if n % 2 else [False, True] for n in range(pairs))
            ]
            rss = usage(programs["insight"].pid).peak_rss_mb
    return _figures([each[True] for each in turns], [each[False] for each in turns], rss)


def _name(person: int) -> str:
    return f"person-{person}"


def _is_restricted(person: int) -> bool:
    return person >= PEOPLE - RESTRICTED


def _prepare(world: ClusterWorld, standing: int) -> None:
    rule = {"apiGroups": [QUEUE_UNITS.group], "resources": ["queueunits"], "verbs": ["list"]}
    bindings = [
        binding(READER, _name(person), NAMESPACE, kind="Role")
        for person in filter(_is_restricted, range(PEOPLE))
    ]
    rights = as_manifest([role(READER, rule, NAMESPACE), *bindings])
    world.plane.kubectl("apply", "--server-side", "--filename", "-", input=rights)
    start_first(world, QUEUES, spare_cpu=1).stop()
    write_copies(world, QUEUES, standing)
    create_quotas(world.client(), [quota(release_latency.QUOTA, "", minimum=1, maximum=1)])


def _log_in(world: ClusterWorld, port: int) -> list[str]:
    """Return the session of each person, as a browser sends it."""
    url, trusted = f"https://{HOST}:{port}", client_context()
    found = []
    for person in range(PEOPLE):
        transport = httpx.HTTPTransport(verify=trusted, local_address=address_of(person))
        with httpx.Client(transport=transport, headers={"Origin": url}) as client:
            sent = {"token": world.plane.token_for(_name(person))}
            answer = client.post(f"{url}/page/session", json=sent).raise_for_status()
        (cookie,) = answer.cookies.jar
        found.append(f"{cookie.name}={cookie.value}")
    return found


def _play(
    world: ClusterWorld,
    programs: Mapping[str, ProgramProcess],
    releases: int,
    cookies: list[str],
) -> Turn:
    """Play one turn, with the pages of those whose cookies are given."""
    client = world.client()
    port = programs["insight"].port_of("--page-address")
    pids = {name: each.pid for name, each in programs.items()}
    with _viewing(port, cookies) as viewing:
        meter, began = Meter.start(pids), time.monotonic()
        starts, _ = release_latency.release_in_turn(client, "turn", releases)
        took = time.monotonic() - began
        cores = {name: seconds / took for name, seconds in meter.read().items()}
    for number in range(releases + 1):
        client.delete(QUEUE_UNITS, NAMESPACE, f"turn-{number:03}")
    turn = Turn(starts, cores, viewing.seen)
    used = ", ".join(f"{name} {each:.3f}" for name, each in cores.items())
    p50, p99 = (percentile(starts, share) for share in (0.5, 0.99))
    got = f"p50 {p50:.1f}, p99 {p99:.1f} ms; cores {used}; {turn.seen}"
    print(f"  {PAGES if cookies else 0} pages: {got}", flush=True)
    return turn


@contextmanager
def _viewing(port: int, cookies: list[str]) -> Iterator[Viewing]:
    """Keep the pages of these people open; they use the first core, when nothing else wants it.

    Browsers are on other machines: they do not slow down the API server and the player.
    """
    found = Viewing()
    if not cookies:
        yield found
        return
    opened = Opened(port=port, cookies=cookies, paths=[*VIEWS], count=PAGES)
    command = ["nice", "-n", "10", sys.executable, "-m", "tests.benchmarks.page_viewers"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as viewers:
        assert viewers.stdin is not None, "a pipe"
        assert viewers.stdout is not None, "a pipe"
        try:
            pin(viewers.pid, CORES[:1])
            viewers.stdin.write(f"{msgspec.json.encode(opened).decode()}\n")
            viewers.stdin.flush()
            assert viewers.stdout.readline().strip() == READY, "the pages could not be opened"
            yield found
            viewers.stdin.close()
            # Nothing if pages have ended.
            found.seen = msgspec.json.decode(viewers.stdout.readline(), type=dict[str, float])
        finally:
            viewers.terminate()


def _figures(on: list[Turn], off: list[Turn], rss: float) -> list[Figure]:
    scheduler, insight = (
        [median(each.cores[name] for each in turns) for turns in (on, off)]
        for name in ("scheduler", "insight")
    )
    pairs = [(a.starts, b.starts) for a, b in zip(on, off, strict=True)]
    asked = median(each.seen["asked"] for each in on)
    refused = median(each.seen["refused"] for each in on)
    took = median(each.seen["median_ms"] for each in on)
    slowest = max(each.seen["slowest_ms"] for each in on)
    return [
        *release_latency.compare("page_cost", pairs),
        Figure(
            name="page_cost_scheduler_cores",
            value=scheduler[0],
            unit="cores",
            control=scheduler[1],
            note=f"{PAGES} pages; {scheduler[0] - scheduler[1]:+.3f} of a core, median of"
            f" {len(on)} turns each",
        ),
        Figure(
            name="page_cost_insight_cores",
            value=insight[0],
            unit="cores",
            control=insight[1],
            note=f"{asked:.0f} views a turn, {refused:.0f} refused, the median took {took:.0f}"
            f" ms, the slowest {slowest:.0f}; peak memory {rss:.0f} MB",
        ),
    ]
