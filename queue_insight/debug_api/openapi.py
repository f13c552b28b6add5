"""The contract of the scheduler's debug API as a file, for readers and for generators of clients.

python -m queue_insight.debug_api.openapi writes it anew; a test says when it is stale.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_scheduler.cycles.engine_reader import OwnEngine
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from queue_scheduler.framework.plugin_runner import PluginRunner
from shared_api.debug_api.access import open_access
from shared_api.debug_api.contract import encode_contract
from shared_api.version import VERSION

CONTRACT_FILE: Final = Path(__file__).with_name("openapi.json")


def build_contract() -> bytes:
    """Return the document, indented, as it is checked in."""
    shared = OwnEngine(Engine(PluginRunner([]), ()))
    answers = Answers(StateAnswers(shared, lambda: False))
    return encode_contract(build_whole_app(answers, open_access, (), VERSION))


def main() -> None:
    """Write the file."""
    CONTRACT_FILE.write_bytes(build_contract())


if __name__ == "__main__":
    main()
