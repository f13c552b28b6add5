"""How what is decided becomes one patch."""

from __future__ import annotations

from queue_controllers.jobframework.execute import add_stamps
from queue_controllers.jobframework.generic_job import PodStamp
from queue_controllers.jobframework.template_updates import TemplateUpdate


def test_stamps_go_with_updates() -> None:
    stamp = PodStamp(labels={"a": "queue", "b": "queue"}, annotations={"c": "queue"})
    update = TemplateUpdate(labels={"a": "check"}, node_selector={"zone": "z"})
    assert add_stamps({"main": update}, {"main": stamp, "other": stamp}) == {
        "main": TemplateUpdate(
            labels={"a": "check", "b": "queue"},
            annotations={"c": "queue"},
            node_selector={"zone": "z"},
        ),
        "other": TemplateUpdate(labels={"a": "queue", "b": "queue"}, annotations={"c": "queue"}),
    }
    assert add_stamps({"main": update}, {}) == {"main": update}
