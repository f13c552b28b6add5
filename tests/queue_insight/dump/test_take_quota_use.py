"""What quotas have used for their turns is in a dump, with other names too."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from queue_insight.dump.anonymize import anonymize
from queue_insight.dump.contents import Dump
from queue_insight.dump.restore import restore_engine
from queue_insight.dump.take import take_dump
from queue_scheduler.decision import Moment
from queue_scheduler.engine.settings import EngineSettings
from tests.properties.engine_kit import WALL, wall_time
from tests.queue_scheduler.tenants.test_quota_use import HALF_LIFE, Teams, build_teams


@pytest.fixture
def teams() -> Teams:
    """Return two quotas of which one has used more, with units that wait in both."""
    teams = Teams(*build_teams())
    teams.ask("a", 4)
    teams.run()
    teams.pass_time(3600)
    teams.ask("a", 2)
    teams.ask("b", 2)
    teams.run()
    return teams


def dump_of(teams: Teams) -> Dump:
    moment = Moment(1000.0, wall_time(WALL + teams.second))
    return take_dump(teams.engine.fork(), moment, EngineSettings(), "1", leader=True)


def restored(dump: Dump) -> Teams:
    """Return the teams of an engine that is made of a dump."""
    again = Teams()
    again.second = 3600
    restore_engine(again.engine, dump)
    again.engine.validate()
    return again


def used(teams: Teams) -> list[Fraction]:
    """Return what quotas have used by now, ascending."""
    second = WALL + teams.second
    return sorted(each.use.decayed(second, HALF_LIFE) for each in teams.use.stored(second))


@pytest.mark.parametrize("change", [lambda dump: dump, anonymize], ids=["as it is", "anonymized"])
def test_a_dump_has_what_quotas_have_used(teams: Teams, change: Callable[[Dump], Dump]) -> None:
    again = restored(change(dump_of(teams)))
    want = used(teams)
    assert len(want) == 2
    assert all(abs(a - b) <= b / 10**30 for a, b in zip(used(again), want, strict=True))


def test_no_name_of_a_quota_is_left(teams: Teams) -> None:
    again = restored(anonymize(dump_of(teams)))
    names = {name for each in again.use.stored(WALL + teams.second) for name in each.path}
    assert len(names) == 2
    assert not names & {"a", "b", "top"}
