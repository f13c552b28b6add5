"""Jobs of all kinds compete for tight quotas; each is started once and ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.kind_table import ROWS
from tests.cluster.kind_traffic import Traffic, find_excess
from tests.cluster.kind_world import KindWorld, kind_world
from tests.cluster.queue_world import until

pytestmark = pytest.mark.cluster

OF_EACH: Final = 20
QUOTAS: Final = {f"tight-{number}": 40 for number in range(4)}
"""In CPUs; the largest job takes 17.5, all together more than 60 times as many as one has."""
KINDS: Final = [row for row in ROWS if row.key != "mpijobv1"]
"""All that one server can have at a time."""


@pytest.fixture(scope="module")
def place(controlplane_binaries: Path) -> Iterator[KindWorld]:
    with kind_world(controlplane_binaries, KINDS) as place:
        yield place


@pytest.mark.timeout(1800)
def test_all_complete_once_within_their_quotas(place: KindWorld) -> None:
    traffic = Traffic(place, QUOTAS, slow=("workflow",))
    traffic.create(KINDS, OF_EACH)
    traffic.run()
    for each in traffic.jobs:
        if each.life.row.ends:
            each.life.await_phase("Succeed")
    want = {each.life.name: 1 + each.is_evicted for each in traffic.jobs}
    until(lambda: traffic.releases() == want)  # the observer sees what happens a moment later
    assert list(find_excess(place.observer.seen, traffic)) == []
    assert place.observer.gaps == []
    for row in KINDS:
        version, _, plural = row.api.rpartition("/")
        everything = f"/apis/{version}/namespaces/default/{plural}"
        place.world.api.request("DELETE", everything, {"propagationPolicy": "Background"})
    until(lambda: not place.world.units())
    for quota in QUOTAS:
        place.await_booked(quota, "0")
