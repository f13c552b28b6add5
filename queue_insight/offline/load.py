"""The engine of a dump. Installed plugins are built; nothing else that a file names is run."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from queue_insight.dump.codec import MAX_BYTES, DumpError, decode_dump
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import moment_of, restore_engine
from queue_scheduler.configuration import KoordQueueConfiguration
from queue_scheduler.decision import Moment
from queue_scheduler.engine.engine import Engine
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.framework.installed_packages import PLUGIN_GROUP, find_offered
from queue_scheduler.framework.offline_handle import OfflineHandle
from queue_scheduler.setup.engine_building import build_engine
from queue_scheduler.setup.plugin_loading import BUILT_IN, load_policies
from shared_api.program_flags import ConfigurationError
from shared_api.version import VERSION

MAX_RATE_CHARS: Final = 100
"""A fraction that is longer is none of this program."""


class Loaded(NamedTuple):
    """A dump as an engine.

    Attributes:
        engine: The engine; its `fork` may be changed.
        moment: The time of its state.
        dump: The dump.
        notes: What may make answers differ from those of the cluster, as sentences.
    """

    engine: Engine
    moment: Moment
    dump: Dump
    notes: tuple[str, ...]


def read_dump(path: Path) -> Dump:
    """Return the dump of a file.

    Raises:
        DumpError: The file cannot be read, or is no dump.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DumpError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise DumpError(f"{path}: it is too large: more than {MAX_BYTES >> 20} MiB")
    try:
        return decode_dump(data, VERSION)
    except DumpError as error:
        raise DumpError(f"{path}: {error}") from error


def load_engine(dump: Dump) -> Loaded:
    """Return the engine of a dump.

    Raises:
        DumpError: Its settings cannot be used here, or its content contradicts itself.
    """
    settings, notes = _usable(dump.settings)
    notes += [f"the dump has no {name}" for name in dump.left_out]
    try:
        rate = Fraction(settings.oversell_rate[:MAX_RATE_CHARS])
        engine = build_engine(replace(settings, oversell_rate=str(rate)), OfflineHandle(rate))
        restore_engine(engine, dump)
    except ConfigurationError as error:
        raise DumpError(f"the dump cannot be used here: {error}") from error
    except Exception as error:  # what a stranger has written can raise anything
        text = f"{type(error).__name__}: {error}"[:300]
        raise DumpError(f"the dump contradicts itself: {text}") from error
    known = {policy.name for policy in load_policies()}
    named = sorted({queue.status.policy_in_force for queue in dump.queues} - known - {""})
    notes += [f"queue policy {name} is not installed here" for name in named]
    return Loaded(engine, moment_of(dump), dump, tuple(notes))


def _usable(settings: EngineSettings) -> tuple[EngineSettings, list[str]]:
    """Return the settings without plugins that are not installed, and a note for each of these."""
    configuration = settings.configuration
    here = {*BUILT_IN, *(point.name for point in find_offered(PLUGIN_GROUP))}
    missing = [entry.name for entry in configuration.plugins if entry.name not in here]
    if not missing:
        return settings, []
    kept = KoordQueueConfiguration(
        plugins=tuple(each for each in configuration.plugins if each.name in here),
        plugin_configs={
            name: each for name, each in configuration.plugin_configs.items() if name in here
        },
        default_reclaim_protect_time=configuration.default_reclaim_protect_time,
        admission_check_timeout=configuration.admission_check_timeout,
        evictions_per_hour=configuration.evictions_per_hour,
        boost_per_eviction=configuration.boost_per_eviction,
        quota_namespaces=configuration.quota_namespaces,
    )
    notes = [f"plugin {name} is not installed here" for name in missing]
    return replace(settings, configuration=kept), notes
