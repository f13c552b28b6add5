"""Jobs of all kinds compete for tight quotas; each is started once and ends, or is deleted.

Those with a switch and those that are held by their pods' gates run side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cluster import gated_kinds
from tests.cluster.gated_kinds import gated
from tests.cluster.kind_table import ROWS
from tests.cluster.kind_traffic import Traffic, find_excess, switched
from tests.cluster.kind_world import KindWorld, kind_world
from tests.cluster.queue_world import PODS
from tests.cluster.served_kinds import install_crds
from tests.waiting import until

OF_EACH: Final = 20
QUOTAS: Final = {f"tight-{number}": 40 for number in range(4)}
"""In CPUs; the largest job requests 17.5, all together more than 60 times one quota."""
KINDS: Final = [row for row in ROWS if row.key != "mpijobv1"]
"""All kinds with a switch that one server can have at a time."""
SLOW: Final = "workflow"
"""The kind of which no job is evicted: that would take a minute."""


@pytest.fixture(scope="module")
def place(controlplane_binaries: Path) -> Iterator[KindWorld]:
    with kind_world(controlplane_binaries, KINDS, more=gated_kinds.EXTENSIONS) as place:
        install_crds(place.world.plane, *gated_kinds.crds())
        yield place


@pytest.mark.timeout(1800)
def test_all_complete_once_within_their_quotas(place: KindWorld) -> None:
    traffic = Traffic(place, QUOTAS)
    with_switch = [switched(row, evicts_first=row.key != SLOW) for row in KINDS]
    traffic.create([*with_switch, *map(gated, gated_kinds.ROWS)], OF_EACH)
    traffic.run()
    for each in traffic.jobs:
        each.await_end()
    want = {each.name: each.wanted_releases for each in traffic.jobs}
    until(lambda: traffic.releases() == want)  # the observer sees events a moment later
    assert traffic.surplus_units() == {}
    assert list(find_excess(place.observer.seen, traffic)) == []
    assert place.observer.gaps == []
    for row in KINDS:
        version, _, plural = row.api.rpartition("/")
        everything = f"/apis/{version}/namespaces/default/{plural}"
        place.world.api.request("DELETE", everything, {"propagationPolicy": "Background"})
    place.world.api.request("DELETE", PODS)
    until(lambda: not place.world.units())
    for quota in QUOTAS:
        place.await_charged(quota, "0")
