"""What insight adds to the scheduler: the feed, the guard of the APIService, the shadow mode."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from queue_insight.api_registration.api_service import ApiServices
from queue_insight.api_registration.guard import VisibilityGuard
from queue_insight.insight_feed.feed import InsightFeed, Replica
from queue_insight.insight_feed.feed_metrics import FeedMetrics
from queue_insight.insight_feed.messages import PROTOCOL, Hello, describe_interpreter
from queue_insight.insight_feed.record_watch import OwnPod, RecordWatch
from queue_insight.shadow_program.flags import (
    ShadowFlags,
    add_shadow_flags,
    read_shadow_flags,
    with_own_lease,
)
from queue_scheduler.configuration import Flags, read_seconds
from queue_scheduler.setup.additions import SchedulerParts
from shared_api.objects.meta import Uid
from shared_api.program import Program
from shared_api.version import VERSION

if TYPE_CHECKING:
    from queue_insight.debug_api.app import InsightRoutes
    from queue_scheduler.debug_api.state_answers import StateAnswers


class InsightAddition:
    """The `Addition` of insight."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""
        parser.add_argument(
            "--insight-socket-dir",
            default="",
            help="folder of the sockets of koord-queue-insight, whose --socket-dir is the same"
            " (default: without it)",
        )
        parser.add_argument(
            "--withdraw-visibility-after",
            default="",
            help="delete the APIService of the aggregated API when nobody has answered for it for"
            " so long: as long as it is there, no namespace can be deleted (default: it is not"
            " looked at)",
        )
        add_shadow_flags(parser)

    def read_flags(self, flags: Flags) -> InsightRequest:
        """Return what the command line asks for.

        Raises:
            FlagError: A value is invalid, or flags contradict each other.
        """
        got = flags.parsed
        patience = got.withdraw_visibility_after
        return InsightRequest(
            flags=flags,
            folder=Path(got.insight_socket_dir) if got.insight_socket_dir else None,
            withdraw_seconds=(
                read_seconds("--withdraw-visibility-after", patience) if patience else None
            ),
            shadow=read_shadow_flags(flags),
        )


@dataclass(frozen=True)
class InsightRequest:
    """What is asked of insight.

    Attributes:
        flags: The command line.
        folder: Where the sockets of the insight program are; None if there is none.
        withdraw_seconds: How long the aggregated API may be unavailable before its APIService is
            deleted; None if it is not looked at.
        shadow: What to watch and record instead of deciding; None: the scheduler decides.
    """

    flags: Flags
    folder: Path | None
    withdraw_seconds: float | None
    shadow: ShadowFlags | None

    @property
    def records_calls(self) -> bool:
        """Whether the insight program is told the engine's calls."""
        return self.folder is not None

    @property
    def other_program(self) -> Callable[[], int] | None:
        """The shadow mode, if it is asked for."""
        shadow = self.shadow
        return None if shadow is None else lambda: _run_shadow(self.flags, shadow)

    def attach(self, parts: SchedulerParts) -> AttachedInsight:
        """Build the feed and the guard, as far as they are asked for."""
        if self.withdraw_seconds is not None:
            _guard_visibility(parts, self.withdraw_seconds)
        feed = None if self.folder is None else _build_feed(parts, self.folder)
        return AttachedInsight(parts, self.folder, feed)


class AttachedInsight:
    """Insight at work in a scheduler.

    Args:
        parts: The parts of the scheduler.
        folder: Where the sockets of the insight program are; None if there is none.
        feed: What tells that program the engine's calls; None if there is none.
    """

    def __init__(
        self, parts: SchedulerParts, folder: Path | None, feed: InsightFeed | None
    ) -> None:
        self._parts = parts
        self._folder = folder
        self._feed = feed

    def end(self) -> None:
        """End the connection to the insight program."""
        if self._feed is not None:
            self._feed.end()

    def close(self) -> None:
        """Close the connection."""
        if self._feed is not None:
            self._feed.close()

    def debug_additions(self, state: StateAnswers) -> InsightRoutes:
        """Return the routes of questions, and what answers about earlier times."""
        # FastAPI is loaded at the first request only.
        from queue_insight.debug_api.answers import Answers  # noqa: PLC0415 - as said
        from queue_insight.debug_api.app import InsightRoutes  # noqa: PLC0415 - as said
        from queue_insight.debug_api.insight_link import InsightLink  # noqa: PLC0415 - as said

        parts = self._parts
        answers = Answers(state, parts.caches.find_namespace, parts.settings)
        return InsightRoutes(answers, InsightLink(self._folder, parts.program.clock))


def _run_shadow(flags: Flags, shadow: ShadowFlags) -> int:
    # What knows kinds of jobs is imported only where jobs are watched.
    from queue_insight.shadow_program.wiring import build_shadow  # noqa: PLC0415 - as said

    program = Program("koord-queue-shadow", with_own_lease(flags.program), only_reads=True)
    return program.run(build_shadow(program, flags, shadow))


def _guard_visibility(parts: SchedulerParts, patience_seconds: float) -> None:
    """Build the guard that withdraws the aggregated API when it is not served, on every replica."""
    services = ApiServices(parts.program.client)
    guard = VisibilityGuard(services, parts.program.clock, patience_seconds)
    parts.threads.run("visibility-guard", guard.step)


def _build_feed(parts: SchedulerParts, folder: Path) -> InsightFeed:
    """Build what tells the insight program all calls of the engine."""
    program, calls = parts.program, parts.calls
    assert calls is not None, "the calls are kept: see `records_calls`"
    hello = Hello(
        protocol=PROTOCOL,
        version=VERSION,
        interpreter=describe_interpreter(),
        identity=program.identity,
        queue_namespace=parts.flags.queue_namespace,
    )
    replica = Replica(hello, program.leadership.is_leader, parts.are_caches_ready)
    metrics = FeedMetrics(program.metrics.registry)
    feed = InsightFeed(parts.shared, calls, folder, replica, program.clock, metrics)
    parts.threads.run("insight-feed", feed.step)
    _watch_record(parts, feed, folder)
    return feed


def _watch_record(parts: SchedulerParts, feed: InsightFeed, folder: Path) -> None:
    """Build what writes an event on this program's pod when nothing is recorded."""
    host, _, _ = parts.program.identity.rpartition("_")
    key = f"{parts.flags.program.lease_namespace}/{host}"

    def find_pod() -> OwnPod:
        pod = parts.caches.pods.store.get(key)
        return OwnPod(key, Uid("") if pod is None else pod.metadata.uid)

    watch = RecordWatch(
        folder, lambda: feed.is_connected, parts.report, find_pod, parts.program.clock
    )
    parts.threads.run("record-watch", watch.step)
