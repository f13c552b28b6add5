"""The page answers as its contract says, whatever is asked: drawn by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
from prometheus_client import CollectorRegistry

from queue_insight.page import login
from queue_insight.page.page_app import build_page_api
from queue_insight.page.page_metrics import PageMetrics
from tests.queue_insight.page.page_kit import ROOT, Browser, LoginWorld, browser
from tests.queue_scheduler.contract_kit import check_operation, operations_of
from tests.queue_scheduler.shell_kit import ShellKit

ENDLESS: Final = ("GET", "/page/events")
"""An answer that does not end."""


def new_world() -> LoginWorld:
    kit = ShellKit()
    kit.add_quota("team", 4)
    kit.add_unit("a", cpu=3)
    kit.dequeue()
    kit.add_unit("b", cpu=2)
    kit.decide()
    return LoginWorld(kit)


def contract_of(world: LoginWorld) -> dict[str, Any]:
    metrics = PageMetrics(CollectorRegistry())
    return build_page_api(world.sources(), world.login, metrics).openapi()


CONTRACT: Final = contract_of(new_world())
OPERATIONS: Final = [each for each in operations_of(CONTRACT) if each != ENDLESS]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    monkeypatch.setattr(login, "REFUSED_AFTER_SECONDS", 0.0)
    monkeypatch.setattr(login, "BURST", 10_000.0)
    with browser(new_world(), ROOT) as client:
        yield client


@pytest.mark.parametrize("operation", OPERATIONS, ids=" ".join)
def test_answers_fit_the_contract(client: Browser, operation: tuple[str, str]) -> None:
    sent = {name: client.headers[name] for name in ("cookie", "origin", "sec-fetch-site")}
    assert check_operation(CONTRACT, operation, str(client.base_url), sent)
