"""An anonymized dump gives the answers of the original, about other names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from queue_insight.dump.anonymize import anonymize
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import restore_engine
from queue_insight.insight.changes import find_changes
from queue_insight.insight.explain import explain
from queue_insight.what_if.at_once import answer_at_once
from queue_insight.what_if.edit import Edit
from queue_scheduler.decision import Moment, Refusal
from queue_scheduler.engine.engine import Engine
from queue_scheduler.queueing.strict_mode import StrictMode
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties.engine_world import Story
from tests.properties.real_quotas import new_engine
from tests.properties.test_dumps import AT, dump_of
from tests.properties.test_engine_properties import EVERYTHING, stories
from tests.properties.test_partial_starts import NODES
from tests.properties.test_replayed_calls import modes, prepared
from tests.properties.test_virtual_cluster import LONG_SECONDS, Town

pytestmark = pytest.mark.properties


class Names:
    """The names of a dump, and what an anonymized one has in their place."""

    def __init__(self, dump: Dump, other: Dump) -> None:
        self._new: dict[str, str] = {"": ""}
        for one, two in zip(_named(dump), _named(other), strict=True):
            self._new.setdefault(one, two)

    def __getitem__(self, name: str) -> str:
        return self._new.get(name, name)


def _named(dump: Dump) -> Iterator[str]:
    everything = (dump.queues, dump.elastic_quotas, dump.units, dump.nodes, dump.namespaces)
    for meta in (each.metadata for kind in everything for each in kind):
        yield from (meta.key, meta.name, meta.namespace)
    for unit in dump.units:
        yield from unit.metadata.labels.values()
        yield unit.spec.queue
    for charge in dump.beyond_objects.last_quotas:
        yield charge.quota


def answers(engine: Engine, moment: Moment, new: Names) -> Iterator[tuple[object, ...]]:
    """Yield what an engine answers, with these names in place of its own."""

    def shown(refusal: Refusal) -> tuple[object, ...]:
        amounts = (refusal.resource, refusal.limit, refusal.used, refusal.requested)
        return (refusal.reason, new[refusal.quota], *amounts, new[refusal.other])

    for key in sorted(engine.units.records):
        got = explain(engine.fork(), key, moment.wall)
        assert got is not None
        yield new[key], got.verdict, got.position, [shown(each) for each in got.blockers]
    for key in sorted(engine.units.records)[:2]:
        found = find_changes(engine.fork(), key, moment.wall)
        for change in () if found is None else found.found:
            also = [new[unit] for unit in change.also_starts]
            yield change.kind, change.sufficient, change.minimal, also
    edit = Edit(kind="SchedulerSettings", patch={"queuePolicy": "FIFO"})
    at_once = answer_at_once(engine.fork(), (edit,), moment)
    yield tuple(new[each.unit] for each in at_once.started)
    yield tuple(new[each.unit] for each in at_once.refused)
    yield tuple((new[each.unit], new[each.by]) for each in at_once.evicted)


def check(dump: Dump, empty: Engine, other_empty: Engine, moment: Moment = AT) -> None:
    other = anonymize(dump)
    restore_engine(empty, dump)
    restore_engine(other_empty, other)
    other_empty.validate()
    want = list(answers(empty, moment, Names(dump, other)))
    assert list(answers(other_empty, moment, Names(other, other))) == want


@modes
@settings(max_examples=10)
@given(story=stories(*EVERYTHING, *NODES, least=20))
def test_any_story(mode: QuotaMode, story: Story) -> None:
    world = prepared(mode)
    world.play(story)
    one, two = (new_engine(QuotaSettings(mode=mode), StrictMode(is_on=True)) for _ in range(2))
    check(dump_of(world.engine), one, two)


@settings(max_examples=20)
@given(seed=st.integers(0, 100_000), share=st.floats(0.0, 1.0))
def test_any_time_of_a_run(seed: int, share: float) -> None:
    town = Town(seed)
    town.cluster.run(town.start + share * LONG_SECONDS)
    moment = Moment(town.cluster.agenda.now, town.cluster.agenda.wall)
    dump = dump_of(town.cluster.engine, moment)
    dump = replace(dump, settings=replace(dump.settings, strict=town.strict))
    both = (town.strict, anonymize(dump).settings.strict)
    one, two = (new_engine(QuotaSettings(mode=QuotaMode.MAX), strict) for strict in both)
    check(dump, one, two, moment)
