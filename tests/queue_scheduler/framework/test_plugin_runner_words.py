"""All plugins as one, where only some have a say: own labels, and what queues need."""

from __future__ import annotations

import pytest

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.framework.plugin_runner import PluginRunner
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import PREEMPTIBLE
from tests.properties.engine_kit import build_queue

NO = Refusal(reason=Reason.REFUSED_BY_PLUGIN)


class Silent:
    """A plugin that has no say in it."""

    name = "silent"


class OwnLabel:
    """A plugin with a label of its own, in its one quota."""

    name = "own label"

    def knows_quota(self, quota: str) -> bool:
        return quota == "own"

    def is_non_preemptible(self, labels: dict[str, str]) -> bool:
        return labels.get("firm") == "yes"


class TestPreemptible:
    def test_the_common_label_counts_everywhere(self) -> None:
        for runner in (PluginRunner([]), PluginRunner([OwnLabel()])):
            assert runner.placing.is_non_preemptible("a", {PREEMPTIBLE: "false"})
            assert not runner.placing.is_non_preemptible("a", {PREEMPTIBLE: "true"})

    def test_a_plugins_label_counts_in_its_own_quotas(self) -> None:
        runner = PluginRunner([OwnLabel(), Silent()])
        assert runner.placing.has_own_labels
        assert runner.placing.is_non_preemptible("own", {"firm": "yes"})
        assert not runner.placing.is_non_preemptible("own", {"firm": "no"})
        assert not runner.placing.is_non_preemptible("other", {"firm": "yes"})
        assert not PluginRunner([Silent()]).placing.has_own_labels


class QueueReader:
    """Says that everything waits for queues."""

    def __init__(self, name: str) -> None:
        self.name = name

    def on_queue(self, queue: Queue) -> tuple[str, ...]:
        return (f"quota/{self.name}", f"quota/of-{queue.metadata.name}")

    def on_queue_gone(self, name: str) -> tuple[str, ...]:
        return (f"quota/{self.name}-{name}",)


def test_queues_reach_the_plugins_they_concern() -> None:
    runner = PluginRunner([QueueReader("a"), Silent(), QueueReader("b")])
    assert runner.facts.on_queue(build_queue("q")) == {"quota/a", "quota/b", "quota/of-q"}
    assert runner.facts.on_queue_gone("q") == {"quota/a-q", "quota/b-q"}


class Readiness:
    """Says that no queue works, or nothing."""

    def __init__(self, name: str, refusal: Refusal | None) -> None:
        self.name = name
        self.refusal = refusal

    def why_not_ready(self, queue: Queue) -> Refusal | None:
        return self.refusal


NO_QUOTA = Refusal(reason=Reason.NO_QUOTA, quota="a")


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([], None, id="none has an opinion"),
        pytest.param([None, NO], NO, id="one reason is enough"),
        pytest.param([None, NO_QUOTA, NO], NO, id="a reason, and a quota that one does not have"),
        pytest.param([NO_QUOTA, None], None, id="another has quotas for it"),
        pytest.param([NO_QUOTA, Refusal(reason=Reason.NO_QUOTA)], NO_QUOTA, id="none has one"),
    ],
)
def test_why_a_queue_does_not_work(answers: list[Refusal | None], want: Refusal | None) -> None:
    plugins = [Readiness(str(number), answer) for number, answer in enumerate(answers)]
    assert PluginRunner([Silent(), *plugins]).placing.why_not_ready(build_queue("q")) is want
