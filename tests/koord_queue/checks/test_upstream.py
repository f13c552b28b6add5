"""What of upstream's programs and settings behaves otherwise."""

from __future__ import annotations

from typing import Any

import pytest

from koord_queue.checks.facts import Answer
from koord_queue.checks.upstream import FLAGS, REFUSED
from queue_controllers.configuration import UPSTREAM_FLAGS as OF_CONTROLLERS
from queue_scheduler.configuration import UPSTREAM_FLAGS as OF_SCHEDULER
from shared_api.upstream_flags import KLOG_FLAGS
from tests.koord_queue.checks.healthy import deployment, finding_texts, listed, named

Json = dict[str, Any]


def go(*args: str, name: str = "koord-queue-controller", replicas: int = 1, **more: Any) -> Json:
    """Return a Deployment as upstream's chart installs it."""
    image = "registry.example.com/acs/koord-queue:v1.3.0"
    container = {"image": image, "command": ["koord-queue"], "args": [*args], **more}
    pod = {"containers": [container]}
    return named(name, "koord-queue", spec={"replicas": replicas, "template": {"spec": pod}})


def own() -> Json:
    found = deployment("scheduler")
    found["metadata"]["labels"]["app.kubernetes.io/part-of"] = "koord-queue"
    return found


@pytest.mark.parametrize(
    ("installed", "want"),
    [
        pytest.param([], "ok: nothing is installed", id="nothing"),
        pytest.param([own()], "ok: nothing is installed", id="the programs of this version"),
        pytest.param([go(replicas=0)], "warning: jobs are compared with", id="upstream, stopped"),
        pytest.param(
            [go()],
            "problem: koord-queue-controller is upstream's, and runs beside",
            id="both run",
        ),
    ],
)
def test_upstreams_programs_are_found(installed: list[Json], want: str) -> None:
    got = finding_texts("upstream", all_deployments=listed(*installed))
    assert got[0].startswith(want)


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param(["--v=4"], None, id="a flag that means the same"),
        pytest.param(["--enableParentLimit=true"], "--enableParentLimit has no effect", id="none"),
        pytest.param(["-wqqps", "50"], "--wqqps has no effect", id="one dash, a value apart"),
        pytest.param(["--defaultPreemptible=false"], "=false is refused", id="a refused value"),
        pytest.param(["--defaultPreemptible"], None, id="the value that counts here"),
        pytest.param(["--manage-all-jobs"], "--manage-all-jobs suspends jobs", id="it suspends"),
    ],
)
def test_flags(args: list[str], want: str | None) -> None:
    stopped = go(*args, replicas=0)
    got = [
        each for each in finding_texts("upstream", all_deployments=listed(stopped)) if "--" in each
    ]
    assert [want in each for each in got if want] == ([True] if want else [])
    assert len(got) == (1 if want else 0)


def test_a_variable_without_effect() -> None:
    stopped = go(replicas=0, env=[{"name": "QueueGroupPlugin", "value": "elasticquotav2"}])
    got = finding_texts("upstream", all_deployments=listed(stopped))
    assert "QueueGroupPlugin has no effect" in got[0]


def queue(name: str, policy: str = "Priority", **annotations: str) -> Json:
    found = named(name, "koord-queue", spec={"queuePolicy": policy})
    keys = {f"koord-queue/{key.replace('_', '-')}": value for key, value in annotations.items()}
    found["metadata"]["annotations"] = keys
    return found


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(queue("a", "Round"), "policy Round does not exist", id="a policy"),
        pytest.param(queue("a", queue_args="x"), "queue-args has no effect", id="arguments"),
        pytest.param(
            queue("a", enable_queueunit_preemption="true"), "strictly lower", id="preemption"
        ),
        pytest.param(queue("a", wait_for_pods_running="true"), "10 minutes", id="waits for pods"),
    ],
)
def test_settings_of_queues(found: Json, want: str) -> None:
    stopped = listed(go(replicas=0))
    got = finding_texts("upstream", all_deployments=stopped, queues=listed(found), quotas=listed())
    (line,) = got
    assert want in line


def test_without_the_right_to_look_it_is_unknown() -> None:
    refused = Answer(right="list deployments.apps")
    (line,) = finding_texts("upstream", all_deployments=refused)
    assert line.startswith("unknown: whether upstream's programs are installed: you may not")


def test_the_flags_are_those_of_the_programs() -> None:
    flags = {each.name for each in (*OF_SCHEDULER, *OF_CONTROLLERS)}
    assert flags - {each.name for each in KLOG_FLAGS} == FLAGS.keys() | REFUSED.keys()
