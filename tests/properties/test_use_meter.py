"""The sums of the hours are what the charges come to, under any order of what happens."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_insight.record.use_meter import HOUR, UseMeter
from queue_insight.record.use_sums import UsePart, decode_block, encode_block, join_hour, join_hours
from queue_scheduler.tenants.accounts import Account
from tests.properties.engine_world import Story
from tests.properties.test_accounts import ACTS, Accounted, prepared, used_of, without_zeros
from tests.properties.test_engine_properties import stories

pytestmark = pytest.mark.properties


class Metered:
    """A world whose charges are metered, in parts that are taken now and then."""

    def __init__(self) -> None:
        self.world: Accounted = prepared()
        self.meter = UseMeter()
        self.meter.begin(self.world.engine, self.world.latest)
        assert self.world.engine.usage.ledger is not None
        self.before = used_of(self.world.engine.usage.ledger)
        self.parts: list[UsePart] = []

    def let_pass(self, seconds: int) -> None:
        self.world.go_to(self.world.time + seconds)

    def take(self) -> None:
        self.meter.advance(self.world.latest)
        self.parts += self.meter.take()

    def check(self) -> None:
        """Check that the parts follow each other, and come to what was charged."""
        self.take()
        want: dict[Account, Counter[str]] = defaultdict(Counter)
        for account, used in self.world.want.items():
            want[account].update(used)
            want[account].subtract(self.before.get(account, {}))
        got: dict[Account, Counter[str]] = defaultdict(Counter)
        end = self.parts[0].since if self.parts else 0
        for part in self.parts:
            assert part.since == end
            assert part.since // HOUR == (part.until - 1) // HOUR
            end = part.until
            for row in part.block.rows:
                got[Account(*row.key[:5])].update(row.used)
        assert without_zeros(got) == without_zeros(want)
        whole = join_hours([join_hour([part.block]) for part in self.parts])
        assert decode_block(encode_block(whole)) == whole
        again: dict[Account, Counter[str]] = defaultdict(Counter)
        for row in whole.rows:
            again[Account(*row.key[:5])].update(row.used)
        assert without_zeros(again) == without_zeros(want)


@given(
    story=stories(*ACTS, least=40),
    pauses=st.lists(st.integers(0, 3 * HOUR), min_size=4, max_size=8),
)
def test_the_hours_are_the_integral(story: Story, pauses: list[int]) -> None:
    metered = Metered()
    step = max(1, len(story) // len(pauses))
    for number, act in enumerate(story):
        metered.world.play([act])
        if number % step == 0:
            metered.let_pass(pauses[number // step % len(pauses)])
        if number % 7 == 0:
            metered.take()
    metered.world.come_to_rest()
    metered.let_pass(HOUR)
    metered.check()


def test_stories_use_something() -> None:
    metered = Metered()
    metered.world.ask_all()
    metered.let_pass(5 * HOUR)
    metered.check()
    assert len(metered.parts) >= 5
    assert sum(row.used.get("cpu", 0) for part in metered.parts for row in part.block.rows) > 0
