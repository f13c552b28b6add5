"""What is known, for how long it is used again, and that whoever is told of news sees them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from fastapi import HTTPException

from queue_insight.page import known_state
from queue_insight.page.known_state import KnownStates
from queue_insight.page.live import Changes
from queue_insight.page.page_app import Pages
from queue_insight.page.queue_view import UnitQuery
from queue_insight.page.shared_answers import SharedAnswers
from queue_insight.page.sources import PageSources
from queue_insight.page.units_to_act_on import UnitGroup
from queue_insight.page.visitors import Visitor
from queue_scheduler.engine.engine import Engine
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_insight.page.page_kit import PageWorld
from tests.queue_insight.page.test_hidden_sums import add
from tests.queue_scheduler.shell_kit import ShellKit

ROOT = Visitor("root", reads_all=True, may_read=lambda _: True, refusal_of=lambda _: None)
TENANT = Visitor(
    "ann",
    reads_all=False,
    may_read=lambda space: space == "default",
    refusal_of=lambda _: HTTPException(403),
)


def sources_of(kit: ShellKit) -> PageSources:
    return PageWorld(kit.shared, kit.clock).sources()._replace(kept_seconds=1.0)


def shown(pages: Pages, visitor: Visitor = ROOT) -> dict[str, Any]:
    content = pages.queue(visitor, "team", UnitQuery(), None).body
    found: dict[str, Any] = msgspec.json.decode(bytes(content))
    return found


def test_a_state_is_used_again_for_a_second(kit: ShellKit) -> None:
    states = KnownStates(sources_of(kit))
    first = states.of_now()
    add(kit, "a", "default", cpu=1)
    assert states.of_now() is first
    kit.clock.advance(1.0)
    assert states.of_now().records.keys() == {"default/a"}


def test_what_all_units_are_together_is_found_once_and_not_for_news(
    kit: ShellKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Engine] = []

    def find(engine: Engine) -> tuple[UnitGroup, ...]:
        asked.append(engine)
        return ()

    monkeypatch.setattr(known_state, "find_units_to_act_on", find)
    states = KnownStates(sources_of(kit))
    Changes(states).look()
    state = states.of_now()
    assert asked == []
    assert state.units.to_act == state.units.to_act == ()
    assert len(asked) == 1


def test_who_is_told_of_a_change_is_shown_it(kit: ShellKit) -> None:
    """Even within the second for which a state is used again."""
    pages = Pages(sources_of(kit))
    changes = Changes(pages.states)
    changes.look()
    assert shown(pages)["total"] == 0
    add(kit, "a", "default", cpu=1)
    assert shown(pages)["total"] == 0, "no news yet"
    assert changes.look() is not None
    got = shown(pages)
    assert (got["total"], got["queue"]["pending"]) == (1, 1)


def test_an_answer_for_all_is_not_shown_to_others(kit: ShellKit) -> None:
    pages = Pages(sources_of(kit))
    add(kit, "a", "default", cpu=1)
    add(kit, "b", "other", cpu=1)
    assert (shown(pages)["total"], shown(pages, TENANT)["total"]) == (2, 1)
    assert shown(pages, TENANT)["others"] == 1


def test_answers_are_computed_once_for_a_state_and_a_second(kit: ShellKit) -> None:
    clock, made = VirtualClock(), list[str]()
    state = KnownStates(sources_of(kit)).of_now()
    answers: SharedAnswers[str] = SharedAnswers(clock, 1.0, most=2)

    def ask(key: str) -> None:
        def build() -> str:
            made.append(key)
            return key

        assert answers.get(state, key, build) == key

    for key in ("a", "a", "b", "a"):
        ask(key)
    assert made == ["a", "b"]
    ask("c")  # there is no place for a third
    ask("a")
    assert made == ["a", "b", "c", "a"]
    clock.advance(1.0)
    ask("a")
    assert made[4:] == ["a"]
