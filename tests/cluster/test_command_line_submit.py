"""`koord-queue submit` on a real cluster: all or nothing, and following jobs until they end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.command_line_kit import (
    COLUMNS,
    CommandLine,
    assert_golden,
    command_line,
    without_styles,
)
from tests.cluster.queue_world import JOBS, OWN_TIMES_SECONDS
from tests.waiting import until

Json = dict[str, Any]

QUOTA: Final = "quota.scheduling.koordinator.sh/name"


@pytest.fixture(scope="module")
def cli(controlplane_binaries: Path) -> Iterator[CommandLine]:
    """A cluster with all programs, and a quota of two cores."""
    with command_line(controlplane_binaries) as found:
        found.world.create_quota("team", cpu_max=2)
        until(lambda: found.world.has_queue("team"))
        yield found


def job(name: str, *, quota: str = "team", cpu: str = "1", seconds: str = "0.5") -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {QUOTA: quota} if quota else {}},
        "spec": {
            "template": {
                "metadata": {"annotations": {"koord-queue.test/run-seconds": seconds}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            }
        },
    }


def written(folder: Path, *documents: Json) -> str:
    file = folder / "jobs.yaml"
    file.write_text("\n---\n".join(json.dumps(each) for each in documents))
    return str(file)


def exists(cli: CommandLine, name: str) -> bool:
    return cli.world.api.find(f"{JOBS.format('default')}/{name}") is not None


def test_a_job_is_followed_until_it_has_succeeded(cli: CommandLine) -> None:
    printed = cli.run("submit", "-f", "-", "--wait", text=json.dumps(job("good")))
    assert printed.code == 0, printed.err
    lines = printed.lines
    assert (lines[0], lines[-1]) == ("job.batch/good created", "job.batch/good succeeded")
    assert len(lines) == len(set(lines)), "a line for each change"


def test_on_a_terminal_one_line_changes(cli: CommandLine, tmp_path: Path) -> None:
    printed = cli.run_on_terminal("submit", "-f", written(tmp_path, job("seen")), "--wait")
    assert printed.code == 0, printed.out
    created, progress, end = without_styles(printed.out).split("\n")
    assert (created, end) == ("job.batch/seen created", "")
    shown = progress.split("\r")
    assert shown[-1] == "job.batch/seen succeeded"
    assert len(shown) > 1
    assert max(map(len, shown)) < COLUMNS


def test_a_job_that_fails_is_the_exit_code(cli: CommandLine) -> None:
    body = job("bad", seconds="3600")
    body["spec"]["activeDeadlineSeconds"] = 1
    printed = cli.run("submit", "-f", "-", "--wait", text=json.dumps(body))
    assert printed.code == 1
    assert printed.lines[-1].startswith("job.batch/bad failed: ")


def test_a_job_that_its_ttl_deletes_at_once_has_succeeded(cli: CommandLine) -> None:
    body = job("vanishing")
    body["spec"]["ttlSecondsAfterFinished"] = 0
    # Kubernetes' own controllers end the pod, the job, and the object: slow where much else runs.
    wait = ("submit", "-f", "-", "--wait")
    printed = cli.run(*wait, text=json.dumps(body), seconds=OWN_TIMES_SECONDS)
    assert (printed.code, printed.lines[-1]) == (0, "job.batch/vanishing succeeded"), printed.err
    until(lambda: not exists(cli, "vanishing"), OWN_TIMES_SECONDS)


def test_a_wait_ends_with_its_timeout_and_the_job_goes_on(cli: CommandLine) -> None:
    cli.world.create_quota("small", cpu_max=1)
    until(lambda: cli.world.has_queue("small"), OWN_TIMES_SECONDS)
    body = json.dumps(job("large", quota="small", cpu="2"))
    printed = cli.run("submit", "-f", "-", "--wait", "--timeout", "8s", text=body)
    assert printed.code == 3
    assert exists(cli, "large")
    assert_golden("submit-timeout", printed.err)


def test_a_job_that_is_deleted_is_no_success(cli: CommandLine) -> None:
    process = start(cli, job("brief", seconds="3600"))
    until(lambda: exists(cli, "brief"))
    cli.world.delete_job("brief")
    out, _ = process.communicate(timeout=OWN_TIMES_SECONDS)
    assert (process.returncode, out.splitlines()[-1]) == (3, "job.batch/brief was deleted")


def test_an_interrupt_leaves_the_job_running(cli: CommandLine) -> None:
    process = start(cli, job("long", seconds="3600"))
    until(lambda: exists(cli, "long") and cli.world.phase_of_job("long") == "Running")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=OWN_TIMES_SECONDS)
    assert process.returncode == 130
    want = "note: job.batch/long goes on: look with `koord-queue describe job/long`"
    assert want in err.splitlines()
    assert not cli.world.is_suspended("long")


def start(cli: CommandLine, body: Json) -> subprocess.Popen[str]:
    """Start to submit and follow a job."""
    process = cli.start("submit", "-f", "-", "--wait")
    assert process.stdin is not None
    process.stdin.write(json.dumps(body))
    process.stdin.close()
    process.stdin = None  # nothing more is written by `communicate`
    return process


def test_a_job_that_the_queue_does_not_manage_is_not_waited_for(cli: CommandLine) -> None:
    body = json.dumps(job("alone", quota="", seconds="3600"))
    printed = cli.run("submit", "-f", "-", "--wait", text=body, seconds=OWN_TIMES_SECONDS)
    assert printed.code == 3
    assert_golden("submit-unmanaged", printed.out + printed.err)


def test_nothing_is_created_if_one_document_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    wrong = job("wrong")
    wrong["spec"]["template"]["spec"]["restartPolicy"] = "Sometimes"
    printed = cli.run("submit", "-f", written(tmp_path, job("fine"), wrong))
    assert (printed.code, printed.out) == (1, "")
    assert not exists(cli, "fine")
    assert_golden("submit-refused", printed.err)


def test_options_name_queue_quota_and_priority(cli: CommandLine, tmp_path: Path) -> None:
    file = written(tmp_path, job("chosen", quota=""))
    options = ("--queue", "team", "--quota", "team", "--priority", "7")
    assert cli.run("submit", "-f", file, *options).code == 0
    spec = until(lambda: cli.world.unit_of("chosen"))["spec"]
    assert (spec["queue"], spec["priority"]) == ("team", 7)


def test_a_dry_run_says_what_would_become_of_a_job(cli: CommandLine, tmp_path: Path) -> None:
    cli.world.create_quota("empty", cpu_max=2)
    until(lambda: cli.world.has_queue("empty"))
    file = written(tmp_path, job("maybe", quota="empty", cpu="20"))
    printed = cli.run("submit", "-f", file, "--dry-run")
    assert printed.code == 0, printed.err
    assert not exists(cli, "maybe")
    assert_golden("submit-dry-run", printed.out.partition("\nWhat keeps")[0])
