"""Jobs that are scaled while they run; with both programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.scenarios.town import Town

pytestmark = pytest.mark.scenario


def test_the_growth_of_a_running_job_is_admitted_when_it_fits(bare_town: Town) -> None:
    bare_town.scheduling.add_quota("gold", cpu=4)
    bare_town.pass_time(5.0)
    bare_town.jobs.job("first", completions=10)
    bare_town.jobs.job("second")
    bare_town.pass_time(5.0)
    for name in ("first", "second"):
        bare_town.jobs.run_pods(name=name)
    bare_town.pass_time(5.0)
    bare_town.jobs.patch_job({"spec": {"parallelism": 4}}, name="first")
    bare_town.pass_time(10.0)
    assert granted(bare_town) == 2, "the quota is full"
    for number in range(2):
        bare_town.jobs.direct.delete("pods", f"second-{number}", "team")
    bare_town.jobs.complete("second")
    bare_town.pass_time(10.0)
    assert granted(bare_town) == 4
    assert bare_town.jobs.get_unit("first")["status"]["admissions"][0]["running"] == 2
    before = unit_writes(bare_town)
    bare_town.pass_time(60.0)
    assert unit_writes(bare_town) == before


@pytest.mark.parametrize("keeps", [True, False])
def test_a_smaller_job_keeps_its_quota_where_it_may_go_back(bare_town: Town, keeps: bool) -> None:
    if keeps:
        bare_town.start(controllers="--keep-grants")
    bare_town.scheduling.add_quota("gold", cpu=4)
    bare_town.pass_time(5.0)
    bare_town.jobs.job("first", completions=10, parallelism=4)
    bare_town.pass_time(5.0)
    bare_town.jobs.run_pods(name="first", count=4)
    bare_town.jobs.patch_job({"spec": {"parallelism": 1}}, name="first")
    bare_town.pass_time(10.0)
    bare_town.jobs.job("second")
    bare_town.pass_time(10.0)
    assert bare_town.jobs.is_suspended("second") is keeps
    bare_town.jobs.patch_job({"spec": {"parallelism": 4}}, name="first")
    bare_town.pass_time(10.0)
    assert bare_town.jobs.get_unit("first")["spec"]["podSet"][0]["count"] == (4 if keeps else 7)


def granted(town: Town) -> int:
    admissions = town.jobs.get_unit("first")["status"]["admissions"]
    return int(admissions[0]["replicas"])


def unit_writes(town: Town) -> int:
    journal = town.jobs.server.journal
    return sum(entry.info.is_write and entry.info.plural == "queueunits" for entry in journal)
