"""What it costs to tell the insight program everything, and what that program takes.

The engine lives as in `engine_figures`, under the lock of a SharedEngine, with a feed on a thread
of its own and the real program at the other end. The control is the same without a log. CPU is
compared, not time: the program at the other end needs a core of its own.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, cast

from prometheus_client import CollectorRegistry

from queue_insight.insight_feed import feed
from queue_insight.insight_feed.feed import PAUSE_SECONDS, InsightFeed, Replica
from queue_insight.insight_feed.feed_metrics import FeedMetrics
from queue_insight.insight_feed.messages import (
    PROTOCOL,
    Checkpoint,
    Hello,
    describe_interpreter,
)
from queue_insight.insight_program.feed_server import Recorder
from queue_insight.insight_program.followed_engine import FollowedEngine
from queue_insight.insight_program.forecasting import RunWatcher
from queue_insight.insight_program.recording import EngineRecorder
from queue_insight.insight_program.wiring import SWITCH_SECONDS
from queue_insight.record.call_codec import decode_call, encode_call
from queue_insight.record.checkpoint import freeze
from queue_insight.record.digest import digest
from queue_scheduler.cycles.call_log import MAX_WAITING, CallLog
from queue_scheduler.cycles.engine_call import EngineCall
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.engine.engine import Engine
from shared_api.process.clock import SystemClock
from shared_api.process.loop_thread import LoopThread
from shared_api.version import VERSION
from tests.benchmarks.engine_load import EngineLoad, flat_load
from tests.benchmarks.figures import Figure
from tests.benchmarks.process_usage import Usage, usage

PENDING: Final = 10_000
QUEUES: Final = 100
LIVES: Final = 2_000
PAIRS: Final = 3
COPIES: Final = 5
TICK_SECONDS: Final = 0.0005
START_SECONDS: Final = 60.0
NEVER: Final = 1 << 60


class FedEngine:
    """The methods of an engine that a load calls, each through a SharedEngine."""

    def __init__(self, engine: Engine, calls: CallLog | None) -> None:
        self._woken: list[str] = []
        self.shared = SharedEngine(engine, self._wake, calls)

    def _wake(self, queues: Iterable[str]) -> None:
        self._woken.extend(queues)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name == "decide_next":
            return self.shared.decide_next
        method = getattr(Engine, name)

        def call(*args: Any) -> Any:
            self._woken.clear()
            self.shared.apply(method, *args)
            return tuple(self._woken)

        return call


class _Lived(NamedTuple):
    """CPU of this process for each life, calls, how long both took, and what the program took."""

    life_us: float
    calls: int
    seconds: float
    before: Usage
    after: Usage

    @property
    def call_us(self) -> float:
        """CPU of the program for each call."""
        return 1e6 * (self.after.cpu_seconds - self.before.cpu_seconds) / self.calls


def run(*, quick: bool = False) -> list[Figure]:
    """Measure everything; `quick` lives a quarter."""
    lives = LIVES // 4 if quick else LIVES
    before, first_digest = sys.getswitchinterval(), feed.CALLS_TO_FIRST_DIGEST
    sys.setswitchinterval(SWITCH_SECONDS)  # as in the program
    vars(feed)["CALLS_TO_FIRST_DIGEST"] = NEVER
    try:
        return [*_copies(), *_encoding(), *_playing(), *_following(lives, 1 if quick else PAIRS)]
    finally:
        sys.setswitchinterval(before)
        vars(feed)["CALLS_TO_FIRST_DIGEST"] = first_digest


def _copies() -> list[Figure]:
    engine = flat_load(PENDING, QUEUES).engine
    forks = [_cpu_milliseconds(engine.fork) for _ in range(COPIES)]
    copy = engine.fork()
    frozen = [_cpu_milliseconds(lambda: freeze(copy)) for _ in range(COPIES)]
    digests = [_cpu_milliseconds(lambda: digest(copy)) for _ in range(COPIES)]
    size = len(freeze(copy)) / 2**20
    rest = partial(time.sleep, PAUSE_SECONDS)
    stalls = [_stall(lambda: freeze(copy, rest)) for _ in range(COPIES)]
    at_once = [_stall(lambda: pickle.dumps(copy, pickle.HIGHEST_PROTOCOL)) for _ in range(COPIES)]
    note = f"{PENDING} pending units, {size:.1f} MiB; the engine's lock is held for the copy alone;"
    note += " CPU, as in the next two"
    return [
        Figure(name="insight_copy_ms", value=median(forks), unit="ms", note=note),
        Figure(name="insight_freeze_ms", value=median(frozen), unit="ms", note="without the lock"),
        Figure(name="insight_digest_ms", value=median(digests), unit="ms", note="without the lock"),
        Figure(
            name="insight_freeze_stall_ms",
            value=median(stalls),
            unit="ms",
            control=median(at_once),
            note=f"longest delay of another thread meanwhile, median of {COPIES}; between two"
            f" pauses {_longest_turn(copy):.1f} ms of CPU at most; control: one pickle of all",
        ),
    ]


def _encoding() -> list[Figure]:
    _, taken = _told(500)
    took = min(_cpu_milliseconds(lambda: [encode_call(call) for call in taken]) for _ in range(3))
    size = sum(len(encode_call(call)) for call in taken) / len(taken)
    note = f"mean of {len(taken)} calls of whole lives, {size:.0f} bytes each"
    return [Figure(name="insight_encode_us", value=1e3 * took / len(taken), unit="us", note=note)]


def _told(lives: int) -> tuple[Checkpoint, list[EngineCall]]:
    """Return an engine, and the calls of these lives after it."""
    clock = SystemClock()
    calls = CallLog(clock.now)
    load = flat_load(PENDING, QUEUES)
    got = FedEngine(load.engine, calls)
    load.engine = cast("Engine", got)
    number, copy = got.shared.checkpoint(starts_log=True)
    checkpoint = Checkpoint(number=number, wall=clock.now(), engine=freeze(copy))
    load.run(load.lives + lives, at_most_seconds=60.0)
    return checkpoint, calls.take()


def _playing() -> list[Figure]:
    """Measure what the program's thread for calls does, without the other threads."""
    checkpoint, taken = _told(1000)
    encoded = [encode_call(call) for call in taken]
    bare = min(_play(checkpoint, encoded, None) for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        kept = min(_play(checkpoint, encoded, Path(folder) / str(n)) for n in range(3))
    return [
        Figure(
            name="insight_play_us",
            value=kept,
            unit="us",
            control=bare,
            note=f"CPU of a call: it is decoded, played, looked at for ended runs, and recorded;"
            f" one core does {1e6 / kept:.0f} a second; control: not recorded",
        )
    ]


def _play(checkpoint: Checkpoint, calls: list[bytes], record: Path | None) -> float:
    """Return the CPU for each call, in microseconds."""
    engine = FollowedEngine()
    recorders: list[Recorder] = [RunWatcher(engine, (lambda _: None,))]
    recorder = None if record is None else EngineRecorder(engine, record, SystemClock().now)
    if recorder is not None:
        recorders.append(recorder)
    engine.begin(checkpoint)
    for each in recorders:
        each.on_checkpoint(checkpoint)
    if recorder is not None:
        recorder.step()
    began = time.thread_time()
    for encoded in calls:
        call = decode_call(encoded)
        answer = engine.play(call)
        for each in recorders:
            each.on_call(call, encoded, answer)
    if recorder is not None:
        recorder.close()
    return 1e6 * (time.thread_time() - began) / len(calls)


def _following(lives: int, pairs: int) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        off: list[float] = []
        on: list[_Lived] = []
        for _ in range(pairs):
            off.append(_live(_loaded(None), lives))
            on.append(_live_with(Path(folder), lives))
    last = on[-1]
    more = (median(each.life_us for each in on) - median(off)) * lives / last.calls
    return [
        Figure(
            name="insight_life_us",
            value=median(each.life_us for each in on),
            unit="us",
            control=median(off),
            note=f"CPU of a life in memory, of {last.calls / lives:.1f} calls, each told for"
            f" {more:.1f} us; median of {pairs}; control: without a feed; digests, which take at"
            f" most {feed.DIGEST_SHARE:.0%} of the time, are left out",
        ),
        Figure(
            name="insight_cpu_us_per_call",
            value=median(each.call_us for each in on),
            unit="us",
            note="CPU of the insight program for each call, with its record and forecasts",
        ),
        Figure(
            name="insight_calls_per_second",
            value=median(each.calls / each.seconds for each in on),
            unit="calls/s",
            note=f"told at full speed until all were taken; {MAX_WAITING} may wait meanwhile",
        ),
        Figure(
            name="insight_rss_mb",
            value=last.after.rss_mb,
            unit="MB",
            note=f"{PENDING} pending; peak {last.after.peak_rss_mb:.0f} MB, when it takes over"
            " a copy; with a record, without questions",
        ),
    ]


def _loaded(calls: CallLog | None) -> EngineLoad:
    load = flat_load(PENDING, QUEUES)
    load.engine = cast("Engine", FedEngine(load.engine, calls))
    return load


def _live(load: EngineLoad, lives: int, *, end: Callable[[], None] = lambda: None) -> float:
    """Return the CPU of this process for each life, in microseconds."""
    began, before = time.process_time(), load.lives
    load.run(before + lives, at_most_seconds=120.0)
    end()
    return 1e6 * (time.process_time() - began) / (load.lives - before)


def _live_with(folder: Path, lives: int) -> _Lived:
    calls = CallLog(SystemClock().now)
    load = _loaded(calls)
    shared = cast("FedEngine", load.engine).shared
    record = f"--record-dir={folder}"
    with insight_process(folder, record) as pid, feeding(folder, shared, calls) as sender:
        _until(lambda: sender.is_connected)
        time.sleep(2.0)  # it thaws the copy
        before, first = usage(pid), calls.last
        began = time.monotonic()
        life = _live(load, lives, end=lambda: _until(lambda: len(calls) == 0))
        seconds = time.monotonic() - began
        time.sleep(0.5)
        return _Lived(life, calls.last - first, seconds, before, usage(pid))


@contextmanager
def insight_process(folder: Path, *flags: str) -> Iterator[int]:
    """Run the program, and yield its process id."""
    module = "queue_insight.insight_program"
    command = [sys.executable, "-m", module, f"--socket-dir={folder}", *flags]
    addresses = ["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"]
    with subprocess.Popen([*command, *addresses], stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def feeding(folder: Path, shared: SharedEngine, calls: CallLog) -> Iterator[InsightFeed]:
    """Feed that program from an engine, on a thread."""
    hello = Hello(
        protocol=PROTOCOL,
        version=VERSION,
        interpreter=describe_interpreter(),
        identity="bench",
        queue_namespace="koord-queue",
    )
    replica = Replica(hello, lambda: True, lambda: True)
    metrics = FeedMetrics(CollectorRegistry())
    sender = InsightFeed(shared, calls, folder, replica, SystemClock(), metrics)
    thread = LoopThread("insight-feed", sender.step, SystemClock(), unblock=sender.end)
    thread.start()
    try:
        yield sender
    finally:
        thread.stop()
        sender.close()


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            msg = "the insight program does not follow"
            raise TimeoutError(msg)
        time.sleep(0.02)


def _stall(what: Callable[[], object]) -> float:
    """Return how long another thread was kept from its next tick, in milliseconds."""
    over, delays = threading.Event(), [0.0]

    def tick() -> None:
        while not over.is_set():
            delays.append(_milliseconds(lambda: time.sleep(TICK_SECONDS)))

    ticker = threading.Thread(target=tick)
    ticker.start()
    what()
    over.set()
    ticker.join()
    return max(delays)


def _longest_turn(copy: Engine) -> float:
    """Return the most CPU between two pauses of a freeze, in milliseconds."""
    marks = [time.thread_time()]
    freeze(copy, lambda: marks.append(time.thread_time()))
    return 1e3 * max(after - before for before, after in pairwise(marks))


def _cpu_milliseconds(what: Callable[[], object]) -> float:
    began = time.thread_time()
    what()
    return 1e3 * (time.thread_time() - began)


def _milliseconds(what: Callable[[], object]) -> float:
    began = time.perf_counter()
    what()
    return 1e3 * (time.perf_counter() - began)
