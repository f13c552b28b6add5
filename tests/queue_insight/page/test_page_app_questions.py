"""Questions that take long have a budget per user: one user takes nothing from another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queue_insight.debug_api.question_budget import QuestionBudget
from queue_insight.debug_api.what_if_routes import WhatIfQuestion, WhatIfView
from queue_insight.page.sources import PageSources
from shared_api.caller_shares import user_key
from tests.queue_insight.page.page_kit import ROOT, TENANT, Browser, LoginWorld, browser
from tests.queue_scheduler.shell_kit import ShellKit

QUESTION: dict[str, list[object]] = {"edits": []}


class LongQuestions(LoginWorld):
    """A world in which each what-if question takes a minute.

    Attributes:
        asked: Who was charged.
    """

    def __init__(self, kit: ShellKit) -> None:
        super().__init__(kit)
        self.askers.add("ann")
        self.asked: list[str] = []
        self._budget = QuestionBudget(kit.clock)

    def sources(self) -> PageSources:
        answer = super().sources().what_if

        def what_if(question: WhatIfQuestion, caller: str) -> WhatIfView:
            self.asked.append(caller)
            with self._budget.spend(caller):
                self.clock.advance(60.0)
            return answer(question, caller)

        return super().sources()._replace(what_if=what_if)


@pytest.fixture
def world(kit: ShellKit) -> LongQuestions:
    kit.add_unit("a")
    return LongQuestions(kit)


@pytest.fixture
def ann(world: LongQuestions) -> Iterator[Browser]:
    with browser(world, TENANT) as client:
        yield client


def test_a_user_spends_its_own_budget(world: LongQuestions, ann: Browser) -> None:
    with Browser(str(ann.base_url)) as root:
        root.log_in(ROOT)
        codes = [each.post("/page/what-if", json=QUESTION).status_code for each in (ann, ann, root)]
    assert codes == [200, 429, 200]
    assert world.asked == [user_key("ann"), user_key("ann"), user_key("root")]


def test_all_sessions_of_a_user_have_one_budget(world: LongQuestions, ann: Browser) -> None:
    assert ann.post("/page/what-if", json=QUESTION).status_code == 200
    with Browser(str(ann.base_url)) as second:
        second.log_in(TENANT)
        refused = second.post("/page/what-if", json=QUESTION)
    assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
    assert world.asked == [user_key("ann")] * 2
