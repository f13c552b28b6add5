"""The process that floods: `python -m tests.flood.flooding`, with a plan on its standard input.

It has a low priority: the programs and the API server come first, so that it slows them down by
what it asks, and hardly by asking. It ends with its plan, and prints what it was answered.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from tests.benchmarks.process_usage import cpu_seconds
from tests.cluster.program_process import ROOT
from tests.flood.http_connection import (
    NO_ANSWER,
    Asker,
    Connection,
    Endpoint,
    Question,
    lenient_context,
)

PARALLEL: Final = 200
SOURCE: Final = "127.0.0.2"
"""Not the address of those that are to be answered meanwhile."""
NICENESS: Final = 10
"""A tenth of the share of others. With the lowest priority it would not keep its clients busy on a
machine with other work."""
SILENCE_SECONDS: Final = 90.0
"""Longer than a flood: it takes no client away that a server keeps waiting."""
PAUSE_SECONDS: Final = 0.05
"""After a connection that failed: the next would fail as well, and cost the client alone."""
LATE_SECONDS: Final = 20.0


class Plan(NamedTuple):
    """A flood: what is asked, of which port, for how long."""

    endpoint: Endpoint
    questions: Sequence[Question]
    seconds: float
    since: datetime
    parallel: int = PARALLEL


@dataclass
class Answers:
    """What a flood was answered.

    Attributes:
        statuses: Answers by status; `NO_ANSWER` for connections that failed.
        open: How many requests were unanswered at a time, on average.
        cores: Processor time of the process, in cores.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    open: float = 0.0
    cores: float = 0.0

    @property
    def made(self) -> int:
        """Answers that were made, whatever they say but "ask later"."""
        return sum(count for code, count in self.statuses.items() if 200 <= code < 300)

    @property
    def refused(self) -> int:
        """Answers that said no."""
        return sum(count for code, count in self.statuses.items() if code >= 300)

    @property
    def failed(self) -> int:
        """Connections that failed."""
        return self.statuses[NO_ANSWER]


class Flooding:
    """A flood that goes on in another process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def answers(self, seconds: float) -> Answers:
        """Wait for its end; return what it was answered."""
        out, _ = self._process.communicate(timeout=seconds + LATE_SECONDS)
        got: dict[str, Any] = json.loads(out)
        statuses = Counter({int(code): count for code, count in got["statuses"].items()})
        return Answers(statuses, got["open"], got["cores"])


@contextmanager
def flooding(plan: Plan) -> Iterator[Flooding]:
    """Flood a port from a process of its own; it ends with the block at the latest."""
    command = [sys.executable, "-m", "tests.flood.flooding"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdin is not None, "a pipe"
            process.stdin.write(_encode(plan))
            process.stdin.flush()
            yield Flooding(process)
        finally:
            process.kill()


def _encode(plan: Plan) -> str:
    got = plan._asdict() | {"since": plan.since.isoformat()}
    return json.dumps(got) + "\n"


def _decode(text: str) -> Plan:
    got: dict[str, Any] = json.loads(text)
    questions = [Question(*each) for each in got["questions"]]
    since = datetime.fromisoformat(got["since"])
    endpoint = Endpoint(*got["endpoint"])
    return Plan(endpoint, questions, got["seconds"], since, got["parallel"])


class _Crowd:
    """The clients of a flood."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._context = lenient_context()
        self._lock = threading.Lock()  # guards the next three
        self._statuses = Counter[int]()
        self._waited = 0.0
        self._asked_at = dict[int, float]()
        self._deadline = 0.0

    def run(self) -> Answers:
        """Ask until the time is up."""
        began, used = time.monotonic(), cpu_seconds(os.getpid())
        self._deadline = began + self._plan.seconds
        for number in range(self._plan.parallel):
            threading.Thread(target=self._client, args=(number,), daemon=True).start()
        time.sleep(self._plan.seconds)
        now = time.monotonic()
        cores = (cpu_seconds(os.getpid()) - used) / (now - began)
        with self._lock:
            waited = self._waited + sum(now - at for at in self._asked_at.values())
            return Answers(self._statuses.copy(), waited / (now - began), cores)

    def _client(self, number: int) -> None:
        plan = self._plan
        question = plan.questions[number % len(plan.questions)]
        asker = Asker(random.Random(number), plan.since)
        with Connection(plan.endpoint, SILENCE_SECONDS, SOURCE, self._context) as connection:
            while (now := time.monotonic()) < self._deadline:
                with self._lock:
                    self._asked_at[number] = now
                status = connection.ask(asker.encode(question, plan.endpoint.name))
                with self._lock:
                    del self._asked_at[number]
                    self._statuses[status] += 1
                    self._waited += time.monotonic() - now
                if status == NO_ANSWER:
                    time.sleep(PAUSE_SECONDS)


def main() -> None:
    """Flood as the standard input says."""
    plan = _decode(sys.stdin.readline())
    os.nice(NICENESS)
    answers = _Crowd(plan).run()
    got = {"statuses": answers.statuses, "open": answers.open, "cores": answers.cores}
    print(json.dumps(got), flush=True)
    os._exit(0)  # the clients' threads wait for servers


if __name__ == "__main__":
    main()
