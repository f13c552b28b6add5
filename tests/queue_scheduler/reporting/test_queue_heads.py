"""How long heads have been heads, and the labels of queues that are shown."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from queue_scheduler.configuration import parse_flags
from queue_scheduler.engine.engine import Engine
from queue_scheduler.reporting.queue_heads import QueueHeads
from shared_api.testing.virtual_clock import VirtualClock
from tests.queue_scheduler.shell_kit import QUEUE_NAMESPACE, ShellKit

AGE = "koord_queue_head_age_seconds"
SHOWN = {"team": "label_team", "example.com/cost-center": "label_example_com_cost_center"}


class Scrape:
    """A registry for the kit's engine."""

    def __init__(self, kit: ShellKit, labels: dict[str, str] | None = None) -> None:
        self.clock = VirtualClock()
        self.registry = CollectorRegistry()
        self.registry.register(QueueHeads(kit.shared, self.clock, labels))

    def age(self, queue: str = "team") -> float | None:
        return self.registry.get_sample_value(AGE, {"queue": queue})


def test_a_head_is_as_old_as_the_first_scrape_that_found_it(kit: ShellKit) -> None:
    scrape = Scrape(kit)
    kit.add_unit("a", cpu=3)
    kit.add_unit("b", cpu=3)
    assert scrape.age() == 0
    scrape.clock.advance(60)
    assert scrape.age() == 60
    kit.dequeue()
    assert scrape.age() == 0, "another unit is the head"
    scrape.clock.advance(5)
    assert scrape.age() == 5


def test_an_empty_queue_has_no_head(kit: ShellKit) -> None:
    scrape = Scrape(kit)
    assert scrape.age() == 0
    scrape.clock.advance(60)
    assert scrape.age() == 0
    unit = kit.add_unit("a")
    assert scrape.age() == 0
    scrape.clock.advance(60)
    kit.direct.delete("queueunits", "a", "default")
    kit.shared.apply(Engine.on_queue_unit_gone, unit)
    kit.add_unit("a")
    assert scrape.age() == 0, "a unit of the same name"


def test_a_deleted_queue_has_no_series(kit: ShellKit) -> None:
    scrape = Scrape(kit, SHOWN)
    kit.shared.apply(Engine.on_queue_gone, "team")
    assert scrape.age() is None
    assert [sample for each in scrape.registry.collect() for sample in each.samples] == []


def test_listed_labels_are_shown_and_no_others(kit: ShellKit) -> None:
    scrape = Scrape(kit, SHOWN)
    labels = {"team": "research", "owner": "ann"}
    kit.direct.patch("queues", "team", {"metadata": {"labels": labels}}, namespace=QUEUE_NAMESPACE)
    kit.learn_queue("team")
    want = {"queue": "team", "label_team": "research", "label_example_com_cost_center": ""}
    (family,) = (each for each in scrape.registry.collect() if each.name == "koord_queue_labels")
    assert [(sample.labels, sample.value) for sample in family.samples] == [(want, 1.0)]


def test_no_label_is_shown_unless_it_is_listed(kit: ShellKit) -> None:
    assert [each.name for each in Scrape(kit).registry.collect()] == [AGE]
    assert parse_flags([]).queue_labels == {}
    assert parse_flags([f"--metrics-queue-labels={', '.join(SHOWN)}"]).queue_labels == SHOWN
