"""What users read on a job while it waits; with both programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario

SILVER = {"metadata": {"labels": {"quota.scheduling.koordinator.sh/name": "silver"}}}


def test_a_missing_quota_is_reported_once_and_again_for_another_quota(bare_town: Town) -> None:
    bare_town.jobs.job()
    bare_town.pass_time(12.0)
    ((reason, note),) = bare_town.reported()
    assert reason == "NoQuota"
    assert "gold does not exist" in note
    bare_town.jobs.patch_job(SILVER)
    bare_town.pass_time(10.0)
    notes = [note for _, note in bare_town.reported()]
    assert len(notes) == 2
    assert any("silver does not exist" in note for note in notes)


def test_an_unreadable_demand_is_reported_on_the_job(bare_town: Town) -> None:
    bare_town.scheduling.add_quota("gold", cpu=2)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1e999"}}}
    pod = {"restartPolicy": "Never", "containers": [container]}
    bare_town.jobs.job(template={"spec": pod})
    bare_town.pass_time(10.0)
    ((reason, note),) = bare_town.reported()
    assert reason == "InvalidDemand"
    assert "requests.cpu: exponent 999" in note


def test_waiting_for_quota_is_reported_and_a_start_costs_no_further_write(
    bare_town: Town,
) -> None:
    bare_town.scheduling.add_quota("gold", cpu=2)
    bare_town.pass_time(5.0)
    for name in ("first", "second"):
        bare_town.jobs.job(name)
        bare_town.pass_time(4.0)  # after ten seconds the unit of the first job reports missing pods
    own = [entry for entry in bare_town.jobs.server.journal if entry.info.name == "first"]
    bare_town.pass_time(10.0)
    assert not bare_town.jobs.is_suspended("first")
    assert bare_town.jobs.is_suspended("second")
    ((reason, note),) = bare_town.reported()
    assert (reason, note.partition(":")[0]) == ("Queued", "Queue unit second waits in queue gold")
    assert [entry.info.verb for entry in own if entry.info.is_write] == ["patch", "patch"]
