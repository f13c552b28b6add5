"""What kubectl shows of the aggregated API, through a real API server, with its users' rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from shared_api.testing.object_builders import job_body, queue_unit_body
from tests.charts.render import as_manifest
from tests.cluster.queue_world import OWN_TIMES_SECONDS, QUOTA_LABEL
from tests.cluster.visibility_world import BASE, LIST, SERVICE, Aggregated, aggregated
from tests.controlplane.control_plane import KubectlFailed
from tests.waiting import until

Json = dict[str, Any]

WAITING: Final = [f"wait-{number:02}" for number in range(12)]
OF_OTHERS: Final = "of-others"
EVERYWHERE: Final = f"{BASE}/pendingunits"
LINE: Final = f"{BASE}/queues/team/pendingunits"


@pytest.fixture(scope="module")
def cluster(controlplane_binaries: Path) -> Iterator[Aggregated]:
    """Of quota team one unit runs, and the others wait; the first of these in namespace zebra."""
    with aggregated(controlplane_binaries, "--forecast-interval=1s") as found:
        world = found.world
        world.create_quota("team", cpu_max=4)
        world.create_unit("run", "team", cpu=3)
        until(lambda: world.phase("run") == "Dequeued")
        world.plane.kubectl("create", "namespace", "zebra")
        other = queue_unit_body(
            OF_OTHERS, namespace="zebra", quota="team", requests={"cpu": 2}, priority=9
        )
        world.plane.kubectl("create", "--filename", "-", input=as_manifest([other]))
        for name in WAITING:
            world.create_unit(name, "team", cpu=2)
        until(found.available, OWN_TIMES_SECONDS)
        until(lambda: succeeds(found, "get", "pu"), OWN_TIMES_SECONDS)  # discovery follows later
        until(lambda: len(names(found, "-A")) == len(WAITING) + 1, OWN_TIMES_SECONDS)
        yield found


@pytest.fixture(scope="module")
def reader(cluster: Aggregated) -> str:
    """Return the token of a ServiceAccount that may view one namespace, and read lines."""
    kubectl = cluster.world.plane.kubectl
    token = token_of(cluster, "viewer")
    account = "--serviceaccount=default:viewer"
    role, line = f"{SERVICE}-viewer", f"{SERVICE}-queue-reader"
    kubectl("create", "rolebinding", "viewer", "--clusterrole", role, account)
    kubectl("create", "clusterrolebinding", "line", "--clusterrole", line, account)
    until(lambda: succeeds(cluster, "get", "--raw", LINE, "--token", token))
    return token


def token_of(cluster: Aggregated, name: str) -> str:
    """Return the token of a new ServiceAccount, which has no rights."""
    cluster.world.plane.kubectl("create", "serviceaccount", name)
    return cluster.world.plane.kubectl("create", "token", name).strip()


def succeeds(cluster: Aggregated, *arguments: str) -> bool:
    """Return whether kubectl is answered; a new right counts after a moment."""
    try:
        cluster.world.plane.kubectl(*arguments)
    except KubectlFailed:
        return False
    return True


def table(cluster: Aggregated, *arguments: str) -> list[list[str]]:
    """Return the words of the lines that kubectl prints."""
    text = cluster.world.plane.kubectl("get", "pendingunits", *arguments)
    return [line.split() for line in text.splitlines()]


def names(cluster: Aggregated, *arguments: str) -> list[str]:
    text = cluster.world.plane.kubectl("get", "pu", *arguments, "-o", "name")
    return [line.removeprefix("pendingunit.visibility.koord-queue/") for line in text.split()]


def test_kubectl_prints_a_line_for_each_unit(cluster: Aggregated) -> None:
    head, first, *rest = table(cluster)
    assert head == ["NAME", "QUEUE", "POSITION", "REASON", "STARTS", "IN", "AGE"]
    assert first[:3] == ["wait-00", "team", "2"]
    assert [row[0] for row in rest] == WAITING[1:]
    head, first, *_ = table(cluster, "-A", "-o", "wide")
    assert head[:2] + head[-4:] == ["NAMESPACE", "NAME", "QUOTA", "PRIORITY", "JOB", "MESSAGE"]
    assert first[:5] == ["zebra", OF_OTHERS, "team", "1", "OverQuotaMax"]
    assert "limit 4, used 3, requested 2)" in " ".join(first)
    assert table(cluster, "-n", "kube-system") == []


def test_kubectl_reads_objects(cluster: Aggregated) -> None:
    kubectl = cluster.world.plane.kubectl
    got = json.loads(kubectl("get", "pu", "-o", "json"))
    assert [each["metadata"]["name"] for each in got["items"]] == WAITING
    one = json.loads(kubectl("get", "pu", "wait-03", "-o", "json"))
    if one != got["items"][3]:  # its forecast may have been renewed between the two answers
        got = json.loads(kubectl("get", "pu", "-o", "json"))
        one = json.loads(kubectl("get", "pu", "wait-03", "-o", "json"))
    assert one == got["items"][3]
    assert (one["kind"], one["spec"]["queue"], one["status"]["position"]) == (
        "PendingUnit",
        "team",
        5,
    )
    assert "Position:" in kubectl("describe", "pu", "wait-03")
    by_field = names(cluster, "-A", "--field-selector", "metadata.namespace!=default")
    assert by_field == [OF_OTHERS]


def test_kubectl_knows_the_resources(cluster: Aggregated) -> None:
    kubectl = cluster.world.plane.kubectl
    found = kubectl("api-resources", "--api-group=visibility.koord-queue", "--no-headers")
    assert [line.split()[:2] for line in found.splitlines()] == [
        ["pendingunits", "pu"],
        ["tries", "visibility.koord-queue/v1alpha1"],
    ]
    assert "scheduling.x-k8s.io" in kubectl("get", "queues", "-n", "koord-queue", "-o", "name")
    until(lambda: succeeds(cluster, "explain", "pendingunits"), OWN_TIMES_SECONDS)
    reported = kubectl("explain", "pendingunits.status.refusal")
    assert "KIND:       PendingUnit" in reported
    assert "reason\t<string> -required-" in reported
    assert "jobs\t<[]TriedJob>" in kubectl("explain", "tries.status")


def test_lists_come_in_pages(cluster: Aggregated) -> None:
    kubectl = cluster.world.plane.kubectl
    assert names(cluster, "--chunk-size=5") == WAITING
    whole = names(cluster, "-A")
    found, token = [], ""
    while True:
        page = json.loads(kubectl("get", "--raw", f"{EVERYWHERE}?limit=5&continue={token}"))
        found.append([each["metadata"]["name"] for each in page["items"]])
        token = page["metadata"]["continue"]
        if not token:
            break
    assert [len(each) for each in found] == [5, 5, 3]
    assert [name for page in found for name in page] == whole


def test_a_unit_is_explained_and_foreseen(cluster: Aggregated) -> None:
    kubectl = cluster.world.plane.kubectl
    of_unit = ("get", "pu", "wait-01", "-o", "json")
    reported = json.loads(kubectl(*of_unit, "--subresource=explain"))
    assert reported["kind"] == "UnitExplanation"
    assert reported["status"]["summary"].startswith("It waits in queue team, at position 3: ")
    head, row = kubectl(*of_unit[:3], "--subresource=explain").splitlines()
    assert head.split() == ["NAME", "VERDICT", "SUMMARY"]
    assert row.split()[:2] == ["wait-01", "waiting"]
    forecast = (*of_unit, "--subresource=forecast")
    until(lambda: succeeds(cluster, *forecast), OWN_TIMES_SECONDS)
    assert json.loads(kubectl(*forecast))["status"]["queue"] == "team"


def test_a_manifest_is_tried(cluster: Aggregated) -> None:
    body = job_body("train", requests={"cpu": 2}, metadata={"labels": {QUOTA_LABEL: "team"}})
    path = f"{BASE}/namespaces/default/tries"
    lost = {**body, "metadata": {**body["metadata"], "namespace": "nowhere"}}
    text = as_manifest([body, lost])
    got = json.loads(
        cluster.world.plane.kubectl("create", "--raw", path, "--filename", "-", input=text)
    )
    job, other = got["status"]["jobs"]
    assert (job["name"], job["startsNow"], job["position"]) == ("train", False, len(WAITING) + 2)
    assert "nowhere" in other["errors"][0]["message"], "namespaces are looked up"


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        (("get", "pu", "--watch"), "(MethodNotAllowed): watch is not offered"),
        (("get", "pu", "-l", "a=b"), "label selectors are not supported"),
        (("get", "pu", "run"), "(NotFound): pendingunits.visibility.koord-queue"),
        (("delete", "pu", "wait-00"), "(MethodNotAllowed)"),
        (("get", "--raw", f"{BASE}/queues/nowhere/pendingunits"), "(NotFound)"),
        (("get", "--raw", f"{EVERYWHERE}?continue={'A' * 48}"), "(Expired)"),
    ],
)
def test_kubectl_prints_why_it_is_refused(
    cluster: Aggregated, arguments: tuple[str, ...], want: str
) -> None:
    with pytest.raises(KubectlFailed) as failed:
        cluster.world.plane.kubectl(*arguments)
    assert want in str(failed.value)


def test_who_has_no_rights_is_told_so(cluster: Aggregated) -> None:
    token = token_of(cluster, "nobody")
    for arguments in (("get", "pu"), ("get", "pu", "-A"), ("get", "pu", "wait-00")):
        with pytest.raises(KubectlFailed) as failed:
            cluster.world.plane.kubectl(*arguments, "--token", token)
        assert "(Forbidden): pendingunits.visibility.koord-queue" in str(failed.value)
        assert "cannot" in str(failed.value)


def test_a_viewer_sees_its_namespace_and_no_names_of_others(
    cluster: Aggregated, reader: str
) -> None:
    kubectl = cluster.world.plane.kubectl
    assert names(cluster, "--token", reader) == WAITING
    with pytest.raises(KubectlFailed, match="Forbidden"):
        table(cluster, "-A", "--token", reader)
    line = json.loads(kubectl("get", "--raw", LINE, "--token", reader))
    assert [each["metadata"]["name"] for each in line["items"]] == WAITING
    assert (line["others"], line["items"][0]["status"]["position"]) == (1, 2)
    for name in (OF_OTHERS, "made-up"):  # no filter tells whether a unit of others has a name
        query = f"?fieldSelector=metadata.name%3D{name}"
        filtered = json.loads(kubectl("get", "--raw", f"{LINE}{query}", "--token", reader))
        assert (filtered["others"], filtered["items"]) == (1, [])
    explained = kubectl("get", "--raw", f"{LIST}/wait-00/explain?changes=true", "--token", reader)
    for text in (json.dumps(line), explained, kubectl("get", "--raw", LIST, "--token", reader)):
        assert OF_OTHERS not in text
        assert "zebra" not in text
    body, path = as_manifest([job_body("train")]), f"{BASE}/namespaces/default/tries"
    with pytest.raises(KubectlFailed, match="Forbidden"):
        kubectl("create", "--raw", path, "--filename", "-", "--token", reader, input=body)
