"""The whole debug API of a busy engine."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from tests.queue_scheduler.shell_kit import busy_kit
from tests.served_app import served


@pytest.fixture(scope="module")
def busy_client() -> Iterator[httpx.Client]:
    answers = Answers(StateAnswers(busy_kit().shared, lambda: True))
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        yield client
