"""The debug API answers as its contract says, whatever is asked: drawn by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from tests.queue_insight.debug_api.drawn_requests import CONTRACT
from tests.queue_scheduler.contract_kit import check_operation, operations_of
from tests.queue_scheduler.shell_kit import busy_kit
from tests.served_app import served


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    answers = Answers(StateAnswers(busy_kit().shared, lambda: True))
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        yield client


@pytest.mark.parametrize("operation", list(operations_of(CONTRACT)), ids=" ".join)
def test_answers_fit_the_contract(client: httpx.Client, operation: tuple[str, str]) -> None:
    served_contract = client.get("/openapi.json").json()
    assert check_operation(served_contract, operation, str(client.base_url))
