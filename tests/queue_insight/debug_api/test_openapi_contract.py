"""The debug API answers as its contract says, whatever is asked: drawn by schemathesis."""

from __future__ import annotations

import httpx
import pytest

from tests.queue_insight.debug_api.drawn_requests import CONTRACT
from tests.queue_scheduler.contract_kit import check_operation, operations_of


@pytest.mark.parametrize("operation", list(operations_of(CONTRACT)), ids=" ".join)
def test_answers_fit_the_contract(busy_client: httpx.Client, operation: tuple[str, str]) -> None:
    served_contract = busy_client.get("/openapi.json").json()
    assert check_operation(served_contract, operation, str(busy_client.base_url))
