"""Which pending units nothing keeps from starting."""

from __future__ import annotations

import pytest

from queue_insight.insight.fitting import fits_now, heads_of_classes
from queue_scheduler.decision import Moment
from shared_api.well_known_labels import STOP_POLICY
from tests.properties.engine_kit import wall_time
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, ShellKit

NOW = Moment(0.0, wall_time(1_800_000_000))


def fitting(kit: ShellKit) -> list[str]:
    engine = kit.shared.fork()
    return [
        record.key
        for queue, record in heads_of_classes(engine)
        if fits_now(engine, queue, record, NOW)
    ]


def test_a_unit_fits_until_it_is_admitted(kit: ShellKit) -> None:
    kit.add_unit("a")
    assert fitting(kit) == ["default/a"]
    kit.dequeue()
    assert fitting(kit) == []


def test_one_unit_stands_for_all_that_request_the_same(kit: ShellKit) -> None:
    for name in ("a", "b"):
        kit.add_unit(name)
    kit.add_unit("other", cpu=2)
    assert fitting(kit) == ["default/a", "default/other"]


@pytest.mark.parametrize("is_refused", [True, False], ids=["decided", "not yet decided"])
def test_a_unit_that_is_too_large_does_not_fit(kit: ShellKit, *, is_refused: bool) -> None:
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    if is_refused:
        kit.decide()
    assert fitting(kit) == []


def test_a_unit_of_a_stopped_queue_does_not_fit(kit: ShellKit) -> None:
    kit.add_unit("a")
    stopped = {"metadata": {"annotations": {STOP_POLICY: "Hold"}}}
    kit.direct.patch("queues", "team", stopped, namespace=QUEUE_NAMESPACE)
    kit.learn_queue("team")
    assert fitting(kit) == []
