"""What was evicted in the last hour is in a dump, also of units that are gone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from queue_insight.dump.anonymize import anonymize
from queue_insight.dump.codec import decode_dump, encode_dump
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import restore_engine
from queue_insight.dump.take import take_dump
from queue_scheduler.decision import Moment
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.well_known_labels import EVICTIONS_PER_HOUR
from tests.properties.engine_kit import WALL, wall_time
from tests.properties.real_quotas import new_engine
from tests.queue_scheduler.preemption.test_eviction_guards import evict_next, running


@pytest.mark.parametrize("change", [lambda dump: dump, anonymize], ids=["as it is", "anonymized"])
def test_a_dump_has_the_evictions_of_units_that_are_gone(change: Callable[[Dump], Dump]) -> None:
    times = running(3, **{EVICTIONS_PER_HOUR: "2"})
    evict_next(times, "h1")
    times.engine.on_queue_unit_gone(times.units["u2"])
    now = times.workers.now
    moment = Moment(now, wall_time(WALL + int(now)))
    dump = take_dump(times.engine.fork(), moment, EngineSettings(), "1", leader=True)
    dump = decode_dump(encode_dump(change(dump)), "1")
    again = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    restore_engine(again, dump)
    (taken,) = again.rounds.rates.taken.values()
    (want,) = times.engine.rounds.rates.taken.values()
    assert taken == want
    assert want.missing == 3600
