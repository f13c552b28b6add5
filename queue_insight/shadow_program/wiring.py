"""Builds the shadow mode: caches, the record, and the engine that decides for itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from queue_insight.replay.jobs import TraceError
from queue_insight.replay.replayed_world import build_engine
from queue_insight.shadow.counterfactual import build_world
from queue_insight.shadow.folder import FILE, RecordError, read_lines
from queue_insight.shadow.given_objects import Given, read_given
from queue_insight.shadow_program.flags import ShadowFlags
from queue_insight.shadow_program.job_watch import JobWatch
from queue_insight.shadow_program.quota_watch import QuotaWatch
from queue_insight.shadow_program.recorder import Recorder, Watched
from queue_insight.shadow_program.shadow_metrics import ShadowMetrics
from queue_scheduler.configuration import Flags, KoordQueueConfiguration, load_configuration
from shared_api.informer.shared_informer import WAIT_SECONDS
from shared_api.local_program import Check
from shared_api.process.loop_thread import LoopThread, Step, stop_all
from shared_api.program import Host
from shared_api.program_flags import FlagError

SYSTEM: Final = "kube-system"

log = structlog.get_logger("wiring")


def build_shadow(
    host: Host, flags: Flags, shadow: ShadowFlags, *, wait_seconds: float = WAIT_SECONDS
) -> Shadow:
    """Return the work of the shadow mode, ready to start.

    Args:
        host: The process; its client must refuse writes.
        flags: The command line.
        shadow: Its part about this mode.
        wait_seconds: 0 if `steps` are called on one thread.

    Raises:
        FlagError: A kind of job is not known, or the file of quotas is wrong.
        ConfigurationError: The configuration file is wrong.
    """
    if flags.without_effect:
        log.warning("settings without effect", settings=dict(flags.without_effect))
    return Shadow(host, flags, shadow, wait_seconds)


class Shadow:
    """The `Work` of the shadow mode."""

    def __init__(self, host: Host, flags: Flags, shadow: ShadowFlags, wait_seconds: float) -> None:
        self._host = host
        configuration = None if flags.config is None else load_configuration(flags.config)
        given = _read_given(shadow, configuration)
        _check_record(shadow)
        excluded = frozenset({SYSTEM, flags.queue_namespace})
        self._jobs = JobWatch(host, shadow.kinds, excluded, wait_seconds=wait_seconds)
        plugins = (configuration or KoordQueueConfiguration()).plugin_names()
        quotas = None
        if shadow.objects is None:
            quotas = QuotaWatch(self._jobs, plugins, flags.queue_namespace)
        self.recorder = Recorder(
            shadow,
            configuration,
            Watched(jobs=self._jobs, quotas=quotas, given=given),
            is_leader=host.leadership.is_leader,
            clock=host.clock,
            metrics=ShadowMetrics(host.metrics.registry),
        )
        self._threads = [
            host.spawn("shadow-kinds", self._jobs.step),
            host.spawn("shadow", self.recorder.step),
        ]

    def start(self) -> None:
        """Fill the caches, and start the threads; only the leader records."""
        self._jobs.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, and write the rest of the record."""
        stop_all(self._threads, self._host.clock)
        self.recorder.close()
        for informer in self._jobs.running():
            informer.stop(0.0)

    def on_started_leading(self) -> None:
        """The next step of the recorder notices it."""

    def ready_checks(self) -> Mapping[str, Check]:
        """Return one check per cache."""
        return self._jobs.ready_checks()

    def threads(self) -> Sequence[LoopThread]:
        """Return the threads that `/livez` watches."""
        running = (each.thread for each in self._jobs.running())
        return (*self._threads, *(thread for thread in running if thread is not None))

    def steps(self) -> list[Step]:
        """Return every step there is now, for a caller that runs them on one thread."""
        own: list[Step] = [self._jobs.step, self.recorder.step]
        return [*(each.step for each in self._jobs.running()), *own]


def _check_record(shadow: ShadowFlags) -> None:
    """Check that a record which is there can be read: the program would go on with it."""
    try:
        if (shadow.folder / FILE).exists():
            deque(read_lines(shadow.folder), maxlen=0)
    except RecordError as error:
        raise FlagError(f"--shadow-record-dir {error}") from error


def _read_given(shadow: ShadowFlags, configuration: KoordQueueConfiguration | None) -> Given:
    if shadow.objects is None:
        return Given()
    try:
        given = read_given(shadow.objects)
        # An engine of these is built again when the caches are complete.
        build_engine(build_world([*given.bodies], configuration, ""))
        return given
    except TraceError as error:
        raise FlagError(f"--shadow-objects {error}") from error
