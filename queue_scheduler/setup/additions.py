"""What other packages add to the scheduler's program: flags, threads, routes, or another mode.

The scheduler decides without any of them, and imports none: it loads them by name, as it loads
plugins. A package that is not installed adds nothing, and its flags are unknown then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol

from queue_scheduler.configuration import FlagGroup, Flags
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Notice
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.framework.installed_packages import load_offered
from queue_scheduler.setup.object_caches import ObjectCaches
from queue_scheduler.setup.threads import Threads
from shared_api.program import Program

if TYPE_CHECKING:  # they import FastAPI, which is loaded at the first request only
    from queue_scheduler.debug_api.additions import Additions as DebugAdditions
    from queue_scheduler.debug_api.state_answers import StateAnswers

GROUP: Final = "koord_queue.scheduler_additions"
"""Names the additions in messages, as a group of entry points names plugins."""

DEFAULT: Final = ("queue_insight.scheduler_additions:InsightAddition",)
"""What is loaded if its package is installed: `module:class`, an `Addition` each."""


@dataclass(frozen=True)
class SchedulerParts:
    """The parts of the scheduler that additions build on.

    Attributes:
        program: The process.
        flags: The command line.
        settings: What the engine was built from.
        shared: The engine.
        calls: The log of its calls; None: no addition asked for it.
        caches: The objects of the cluster.
        are_caches_ready: Returns whether all of them were listed.
        threads: Starts and stops the threads that are made there.
        report: Writes an event.
    """

    program: Program
    flags: Flags
    settings: EngineSettings
    shared: SharedEngine
    calls: CallLog | None
    caches: ObjectCaches
    are_caches_ready: Callable[[], bool]
    threads: Threads
    report: Callable[[Notice], None]


class Attachment(Protocol):
    """An addition at work in a scheduler."""

    def end(self) -> None:
        """Let the threads of this addition come to their end; they are stopped afterwards."""

    def close(self) -> None:
        """Close what is open. The threads have stopped."""

    def debug_additions(self, state: StateAnswers) -> DebugAdditions:
        """Return what is added to the debug API; called once, at the first request to it.

        Args:
            state: Answers about the scheduler's state.
        """


class Request(Protocol):
    """What the command line asks of one addition."""

    @property
    def records_calls(self) -> bool:
        """Whether it reads the log of the engine's calls."""

    @property
    def other_program(self) -> Callable[[], int] | None:
        """What runs instead of the scheduler, and returns the exit code; None: nothing does."""

    def attach(self, parts: SchedulerParts) -> Attachment:
        """Build what was asked for. `parts.threads` starts the threads."""


class Addition(FlagGroup, Protocol):
    """What a package adds."""

    def read_flags(self, flags: Flags) -> Request:
        """Return what the command line asks for; its own flags are in `flags.parsed`.

        Raises:
            FlagError: A value is invalid, or flags contradict each other.
        """


def load_additions(names: Sequence[str] = DEFAULT) -> tuple[Addition, ...]:
    """Return the additions whose packages are installed, in order.

    Args:
        names: `module:class` each.

    Raises:
        ConfigurationError: One is installed, and cannot be imported.
    """
    return tuple(
        load_offered(EntryPoint(name, name, GROUP))()
        for name in names
        if find_spec(name.partition(".")[0]) is not None
    )
