"""Files with dumps, for tests of the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from queue_insight.debug_api.answers import Answers
from queue_scheduler.configuration import KoordQueueConfiguration, PluginEntry
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.settings import EngineSettings
from tests.queue_scheduler.shell_kit import ShellKit

SETTINGS = EngineSettings(
    configuration=KoordQueueConfiguration(
        plugins=(PluginEntry("Priority"), PluginEntry("ElasticQuotaV2")),
        plugin_configs={"ElasticQuotaV2": {"mode": "max"}},
    )
)


def dump_bytes(kit: ShellKit) -> bytes:
    """Return a dump with a quota of four cores, of which one unit has three and one wants two."""
    kit.add_unit("busy", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    return Answers(StateAnswers(kit.shared, lambda: True), settings=SETTINGS).dump()


def edited(data: bytes, **fields: Any) -> bytes:
    """Return a dump with other fields."""
    return msgspec.json.encode({**msgspec.json.decode(data), **fields})


def write(folder: Path, name: str, data: bytes) -> Path:
    """Return a file with this content."""
    path = folder / name
    path.write_bytes(data)
    return path
