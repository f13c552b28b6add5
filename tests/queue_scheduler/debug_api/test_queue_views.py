"""Views of queues are kept while a queue stays as it is, and only then."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from queue_scheduler.debug_api.hiding import hide
from queue_scheduler.debug_api.state_answers import StateAnswers
from queue_scheduler.engine.engine import Engine
from shared_api.testing.object_builders import elastic_quota, queue
from shared_api.well_known_labels import STOP_POLICY
from tests.properties.engine_kit import wall_time
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, ShellKit

NOW = wall_time(1_800_000_000)

Step = Callable[[ShellKit], object]


def _stop(kit: ShellKit) -> None:
    stopped = {STOP_POLICY: "Hold"}
    kit.shared.apply(
        Engine.on_queue,
        queue("team", namespace=QUEUE_NAMESPACE, metadata={"annotations": stopped}),
    )


def _add_quota(kit: ShellKit) -> None:
    kit.shared.apply(Engine.on_quota, elastic_quota("other", max={"cpu": 4}))


STORY: tuple[tuple[str, Step], ...] = (
    ("a unit arrives", lambda kit: kit.add_unit("first", cpu=3)),
    ("it is admitted", lambda kit: kit.dequeue()),
    ("one waits", lambda kit: kit.add_unit("big", cpu=2)),
    ("it is refused", lambda kit: kit.decide()),
    ("one is on hold", lambda kit: kit.add_unit("off", active=False)),
    ("the head has a higher priority", lambda kit: kit.add_unit("urgent", cpu=2, priority=9)),
    ("another queue comes", lambda kit: kit.add_queue("other")),
    ("a quota of its name comes", _add_quota),
    ("the queue is stopped", _stop),
)


@pytest.fixture
def api(kit: ShellKit) -> StateAnswers:
    return new_api(kit)


def new_api(kit: ShellKit) -> StateAnswers:
    return StateAnswers(kit.shared, lambda: True, lambda: NOW)


def shown(api: StateAnswers) -> dict[str, Any]:
    page: dict[str, Any] = json.loads(api.queue_views.encode(api.queues()))
    return page


def test_an_answer_is_that_of_an_api_that_keeps_nothing(kit: ShellKit, api: StateAnswers) -> None:
    for what, step in STORY:
        step(kit)
        want = new_api(kit).queues().model_dump(mode="json", by_alias=True)
        assert shown(api) == want, what


def test_every_step_of_the_story_is_seen(kit: ShellKit, api: StateAnswers) -> None:
    seen = [shown(api)]
    for what, step in STORY:
        step(kit)
        assert shown(api) != seen[-1], what
        seen.append(shown(api))


def test_the_view_of_a_queue_that_stays_as_it_is_is_built_once(
    kit: ShellKit, api: StateAnswers
) -> None:
    kit.add_queue("other")
    kit.add_unit("first", cpu=3)
    before = api.queues().items
    kit.add_unit("second", cpu=3)
    other, team = api.queues().items
    assert other is before[0]
    assert team is not before[1]


def test_units_of_other_namespaces_are_not_in_the_text(kit: ShellKit, api: StateAnswers) -> None:
    kit.add_unit("secret", cpu=3)
    page = api.queues()
    hidden = hide(page, lambda _: False)
    assert b"secret" in api.queue_views.encode(page)
    assert b"secret" not in api.queue_views.encode(hidden)
    assert b"secret" in api.queue_views.encode(hide(page, lambda _: True))


def test_queues_that_are_gone_are_forgotten(kit: ShellKit, api: StateAnswers) -> None:
    second = queue("other", namespace=QUEUE_NAMESPACE)
    kit.shared.apply(Engine.on_queue, second)
    other, _ = api.queues().items
    kit.shared.apply(Engine.on_queue_gone, "other")
    assert len(api.queues().items) == 1
    kit.shared.apply(Engine.on_queue, second)
    again, _ = api.queues().items
    assert again == other, "else it would be built anew in any case"
    assert again is not other
