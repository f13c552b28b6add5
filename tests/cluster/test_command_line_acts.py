"""Acts of the command line on real jobs, units and queues: what they say, do, and set off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.command_line_kit import CommandLine, Printed, assert_golden, command_line
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUOTAS
from tests.object_states import condition_of
from tests.waiting import stays, until

Json = dict[str, Any]

BLOCK: Final = "koord-queue/block-for-test"
PRIORITY: Final = "scheduling.x-k8s.io/priority"
STOP: Final = "koord-queue/stop-policy"
SCHEDULING: Final = "scheduling.x-k8s.io"
UNDO: Final = "note: to undo: koord-queue "


def rule(group: str, resource: str, *verbs: str) -> Json:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


READS: Final = [
    rule(SCHEDULING, "queueunits", "get", "list"),
    rule("batch", "jobs", "get"),
]
"""What all acts on jobs need in addition."""


@pytest.fixture(scope="module")
def cli(controlplane_binaries: Path) -> Iterator[CommandLine]:
    """A cluster with all programs; each test has a quota of two cores of its own."""
    with command_line(controlplane_binaries) as found:
        yield found


def filled(cli: CommandLine, team: str, *waiting: str) -> None:
    """Create a quota that a job fills, `TEAM-runs`, and jobs that wait for it."""
    world = cli.world
    world.create_quota(team, cpu_max=2)
    until(lambda: world.has_queue(team))
    world.create_job(f"{team}-runs", team, cpu="2", run_seconds=3600)
    until(lambda: world.phase_of_job(f"{team}-runs") == "Running", OWN_TIMES_SECONDS)
    for name in waiting:
        world.create_job(name, team, cpu="2", run_seconds=3600)
        until(partial(cli.world.quota_reserved, name), OWN_TIMES_SECONDS)


def act(cli: CommandLine, *arguments: str) -> Printed:
    printed = cli.run(*arguments)
    assert printed.code == 0, printed.err
    return printed


def undo(cli: CommandLine, printed: Printed) -> Printed:
    """Run the command that an act has named to undo it."""
    (line,) = (each for each in printed.err.splitlines() if each.startswith(UNDO))
    return act(cli, *line.removeprefix(UNDO).split())


def transcript(*printed: Printed) -> str:
    """Return what was printed, less for how long pods have run."""
    text = "".join(f"{each.out}{each.err}" for each in printed)
    return re.sub(r":? \(?[\d.]+ h of (their pods' )?work is lost\)?", "", text)


def test_a_held_job_stays_where_it_is_until_it_is_released(cli: CommandLine) -> None:
    filled(cli, "held", "held-waits")
    first = act(cli, "hold", "job/held-waits")
    again = act(cli, "hold", "job/held-waits")
    running = cli.run("hold", "job/held-runs")
    assert running.code == 1
    cli.world.delete_job("held-runs")
    stays(lambda: cli.world.phase_of_job("held-waits") == "Enqueued")
    released = undo(cli, first)
    until(lambda: cli.world.phase_of_job("held-waits") == "Running", OWN_TIMES_SECONDS)
    assert_golden("acts-hold", transcript(first, again, running, released))


def test_a_priority_is_said_by_the_job_and_carried_over(cli: CommandLine) -> None:
    filled(cli, "ranked", "ranked-a", "ranked-b")
    printed = act(cli, "priority", "job/ranked-b", "job/ranked-a", "--to", "-7")
    spec = cli.world.unit_of("ranked-b")["spec"]
    assert (spec["priority"], cli.world.job("ranked-b")["metadata"]["annotations"][PRIORITY]) == (
        -7,
        "-7",
    )
    undone = undo(cli, printed)
    until(lambda: cli.world.unit_of("ranked-b")["spec"]["priority"] == 0)
    assert_golden("acts-priority", transcript(printed, undone))


def test_a_job_is_moved_to_a_queue_that_is_there(cli: CommandLine) -> None:
    filled(cli, "moved", "moved-waits")
    accepts = {"koord-queue/available-quota-in-queue": "moved"}
    cli.world.create_queue("night", "FIFO", annotations=accepts)
    unknown = cli.run("move", "job/moved-waits", "--to", "nowhere")
    assert unknown.code == 1
    printed = act(cli, "move", "job/moved-waits", "--to", "night")
    assert cli.world.unit_of("moved-waits")["spec"]["queue"] == "night"
    runs = act(cli, "move", "job/moved-runs", "--to", "night")
    undone = undo(cli, printed)
    assert cli.world.unit_of("moved-waits")["spec"]["queue"] == "moved"
    assert_golden("acts-move", transcript(unknown, printed, runs, undone))


def test_an_inactive_job_runs_again_when_it_is_activated(cli: CommandLine) -> None:
    filled(cli, "paused")
    printed = act(cli, "deactivate", "job/paused-runs")
    until(lambda: cli.world.phase_of_job("paused-runs") == "Enqueued", OWN_TIMES_SECONDS)
    stays(lambda: cli.world.is_suspended("paused-runs"))
    again = act(cli, "deactivate", "job/paused-runs")
    undone = undo(cli, printed)
    until(lambda: cli.world.phase_of_job("paused-runs") == "Running", OWN_TIMES_SECONDS)
    assert_golden("acts-deactivate", transcript(printed, again, undone))


def test_a_requeued_job_is_evicted_and_runs_again(cli: CommandLine) -> None:
    filled(cli, "back", "back-waits")
    printed = act(cli, "requeue", "job/back-runs")
    event = partial(cli.world.event_notes, "back-runs")
    until(lambda: "RequeueRequested" in event(), OWN_TIMES_SECONDS)

    def has_returned() -> bool:
        evicted = condition_of(cli.world.unit_of("back-runs"), "Evicted")
        return bool(evicted["status"] == "False")

    until(has_returned, OWN_TIMES_SECONDS)
    until(lambda: cli.world.phase_of_job("back-runs") == "Running", OWN_TIMES_SECONDS)
    waits = act(cli, "requeue", "job/back-waits")
    assert_golden("acts-requeue", transcript(printed, waits))


def test_units_without_a_job_are_changed_themselves(cli: CommandLine) -> None:
    cli.world.create_quota("byhand", cpu_max=2)
    until(lambda: cli.world.has_queue("byhand"))
    cli.world.create_unit("solo", "byhand", cpu=4)
    done = [
        act(cli, "hold", "solo"),
        act(cli, "priority", "unit/solo", "--to", "5"),
        act(cli, "deactivate", "solo"),
    ]
    unit = cli.world.unit("solo")
    assert unit["metadata"]["annotations"][BLOCK] == "true"
    assert (unit["spec"]["priority"], unit["spec"]["active"]) == (5, False)
    done += [act(cli, "activate", "solo"), act(cli, "release", "solo")]
    assert_golden("acts-unit", transcript(*done))


def test_a_queue_is_stopped_drained_and_resumed(cli: CommandLine) -> None:
    filled(cli, "shut", "shut-waits")
    until(lambda: cli.world.queue("shut")["status"]["admitted"] == 1, OWN_TIMES_SECONDS)
    stopped = act(cli, "stop", "shut")
    drained = act(cli, "drain", "queue/shut")
    until(lambda: cli.world.phase_of_job("shut-runs") == "Enqueued", OWN_TIMES_SECONDS)
    resumed = act(cli, "resume", "shut")
    until(lambda: cli.world.phase_of_job("shut-runs") == "Running", OWN_TIMES_SECONDS)
    again = act(cli, "resume", "shut")
    assert_golden("acts-stop", transcript(stopped, drained, resumed, again))


def test_a_queue_that_its_quota_stops_is_resumed_on_the_quota(cli: CommandLine) -> None:
    cli.world.create_quota("told", cpu_max=2, annotations={STOP: "Hold"})
    until(lambda: cli.world.has_queue("told"))
    tried = act(cli, "resume", "told", "--dry-run", "--server", cli.server)
    assert "edits[" not in tried.err, tried.err
    printed = act(cli, "resume", "told")
    quota = cli.world.api.request("GET", f"{QUOTAS.format('default')}/told")
    assert STOP not in quota["metadata"].get("annotations", {})
    until(lambda: STOP not in cli.world.queue("told")["metadata"].get("annotations", {}))
    assert_golden("acts-resume-quota", transcript(printed))


def test_a_dry_run_says_what_an_act_would_set_off(cli: CommandLine) -> None:
    filled(cli, "asked", "asked-waits")
    before = cli.world.unit_of("asked-runs"), cli.world.job("asked-runs")
    server = ("--server", cli.server)
    printed = [
        act(cli, "deactivate", "job/asked-runs", "--dry-run", *server),
        act(cli, "requeue", "job/asked-runs", "--dry-run", *server),
        act(cli, "drain", "asked", "--dry-run", *server),
    ]
    assert (cli.world.unit_of("asked-runs"), cli.world.job("asked-runs")) == before
    assert_golden("acts-dry-run", transcript(*printed))


def test_a_dry_run_without_a_debug_api_says_what_is_missing(cli: CommandLine) -> None:
    filled(cli, "unasked", "unasked-waits")
    printed = act(cli, "hold", "job/unasked-waits", "--dry-run")
    assert printed.lines == [
        "job.batch/unasked-waits on hold (dry run)",
        f"  annotation {BLOCK}: true",
    ]
    assert printed.err.count("note: ") == 1
    assert "which units would then start, wait or be evicted is not known" in printed.err


def test_a_missing_right_is_named(cli: CommandLine) -> None:
    filled(cli, "barred", "barred-waits")
    grant(cli, "reader", READS)
    denied = [
        cli.run(*arguments, "--as", "reader")
        for arguments in (("hold", "job/barred-waits"), ("requeue", "job/barred-runs"))
    ]
    assert [each.code for each in denied] == [1, 1]
    assert_golden("acts-denied", transcript(*denied))


def test_the_rights_of_the_table_suffice(cli: CommandLine) -> None:
    filled(cli, "able", "able-waits")
    grant(cli, "owner", [*READS, rule("batch", "jobs", "patch")])
    grant(cli, "operator", [*READS, rule(SCHEDULING, "queueunits/status", "patch")])
    cli.world.create_queue("evening", "FIFO")
    for arguments in (
        ("priority", "job/able-waits", "--to", "3"),
        ("hold", "job/able-waits"),
        ("release", "job/able-waits"),
        ("move", "job/able-waits", "--to", "evening"),
        ("deactivate", "job/able-waits"),
        ("activate", "job/able-waits"),
    ):
        act(cli, *arguments, "--as", "owner")
    act(cli, "requeue", "job/able-runs", "--as", "operator")


def grant(cli: CommandLine, user: str, rules: list[Json]) -> None:
    """Give a user rights in the namespace."""
    base = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    meta = {"metadata": {"name": user}}
    cli.world.api.request("POST", f"{base}/roles", {**meta, "rules": rules})
    group = "rbac.authorization.k8s.io"
    body = {
        **meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    cli.world.api.request("POST", f"{base}/rolebindings", body)


def test_of_several_targets_those_that_can_be_are_changed(cli: CommandLine) -> None:
    filled(cli, "some", "some-a", "some-b")
    printed = cli.run("hold", "job/some-a", "job/some-runs", "job/none", "job/some-b")
    assert printed.code == 1
    for name in ("some-a", "some-b"):
        assert cli.world.unit_of(name)["metadata"]["annotations"][BLOCK] == "true"
    assert_golden("acts-several", transcript(printed))
