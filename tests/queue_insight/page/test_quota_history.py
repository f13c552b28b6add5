"""What quotas used is kept, and nothing else of the engines that it was read from."""

from __future__ import annotations

from datetime import timedelta

from queue_insight.debug_api.insight_views import RecordView
from queue_insight.page.known_state import read_state
from queue_insight.page.quota_history import HOURS, QuotaHistory
from queue_insight.page.sources import PageSources
from tests.queue_insight.page.page_kit import PageWorld
from tests.queue_insight.page.test_hidden_sums import add
from tests.queue_scheduler.shell_kit import ShellKit


def sources_of(kit: ShellKit) -> PageSources:
    """Return sources with a record of more than a day, in which all is as now."""
    world = PageWorld(kit.shared, kit.clock)
    last = kit.clock.now().replace(minute=0, second=0, microsecond=0)
    world.past = {last - timedelta(hours=each): kit.shared for each in range(HOURS)}
    world.record = RecordView(state="recording", complete_from=last - timedelta(days=2))
    return world.sources()


def test_the_history_has_what_quotas_used(kit: ShellKit) -> None:
    add(kit, "a", "default", cpu=1)
    sources = sources_of(kit)
    history = QuotaHistory(sources)
    assert history.states() == []
    history.read()
    got = history.states()
    want = read_state(sources.at(got[-1].state_at), 0)
    assert len(got) == HOURS
    assert [each.state_at for each in got] == sorted(each.state_at for each in got)
    assert (got[-1].trees, got[-1].users) == (want.trees, want.users)
    assert want.records
    assert want.users


def test_no_units_of_the_past_are_kept(kit: ShellKit) -> None:
    """Each engine of the past has units of its own: 24 of them would take a GiB."""
    add(kit, "a", "default", cpu=1)
    history = QuotaHistory(sources_of(kit))
    history.read()
    for each in history.states():
        rest = (each.queues, each.waiting, each.to_act, each.not_running, each.unqueued)
        assert not any(rest)
        assert not each.records
