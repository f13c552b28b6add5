"""Jobs, pods, nodes, leases, events, reviews: what the project relies on in each."""

from __future__ import annotations

import pytest

from tests.contracts.api_server.server_under_test import (
    EVENTUALLY_SECONDS,
    MERGE,
    Api,
    Json,
    of_1_36,
)
from tests.waiting import until

STARTED = {"startTime": "2026-11-01T10:00:00Z"}
SUSPENDED = {"type": "Suspended", "status": "True"}


def pod_spec(**spec: Json) -> Json:
    return {"containers": [{"name": "main", "image": "image"}], **spec}


def job(name: str, **spec: Json) -> Json:
    template = {"spec": pod_spec(restartPolicy="Never")}
    # Managed by no controller: the real Job controller would overwrite the status that a test
    # writes.
    whole = {
        "suspend": True,
        "managedBy": "conformance.example.com/nobody",
        "template": template,
        **spec,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


def pod(name: str, **spec: Json) -> Json:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(**spec)}


# ------------------------------------------------------------------------------------------ jobs


def test_a_job_gets_defaults_and_labels_of_its_own(api: Api) -> None:
    made = api.create(api.jobs, job("a"))
    spec, uid = made["spec"], made["metadata"]["uid"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert spec["completionMode"] == "NonIndexed"
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = spec["template"]["metadata"]["labels"]
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "a"
    assert made["metadata"]["generation"] == 1
    assert made["status"] == {}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param(
            {"template": {"spec": pod_spec()}}, {"spec.template.spec.restartPolicy"}, id="restart"
        ),
        pytest.param(
            {"template": {"spec": {"restartPolicy": "Never"}}},
            {"spec.template.spec.containers"},
            id="no containers",
        ),
        pytest.param({"parallelism": -1}, {"spec.parallelism"}, id="negative"),
        pytest.param({"completionMode": "Indexed"}, None, id="indexed with one completion"),
        pytest.param(
            {"completionMode": "Indexed", "parallelism": 2}, {"spec.completions"}, id="indexed"
        ),
    ],
)
def test_a_job_is_checked(api: Api, spec: Json, fields: set[str] | None) -> None:
    answer = api.ask("POST", api.jobs, job("a", **spec))
    assert (answer.fields if answer.status == 422 else None) == fields


GPU = "example.com/gpu"


@pytest.mark.parametrize(
    ("resources", "field"),
    [
        pytest.param({"requests": {GPU: "1"}}, "resources.limits", id="no limit"),
        pytest.param(
            {"requests": {GPU: "1"}, "limits": {GPU: "2"}}, "resources.requests", id="another limit"
        ),
        pytest.param({"requests": {GPU: 1}, "limits": {GPU: "1"}}, None, id="equal"),
        pytest.param({"limits": {GPU: 1}}, None, id="a limit alone"),
        pytest.param({"requests": {"cpu": "1"}}, None, id="cpu"),
        pytest.param({"requests": {"kubernetes.io/batch-cpu": "1"}}, None, id="a native name"),
    ],
)
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_gpus_need_an_equal_limit(
    api: Api, resources: Json, field: str | None, containers: str
) -> None:
    one = {"name": "one", "image": "image", "resources": resources}
    spec = pod_spec(restartPolicy="Never") | {containers: [one]}
    answer = api.ask("POST", api.jobs, job("a", template={"spec": spec}))
    want = {f"spec.template.spec.{containers}[0].{field}"} if field else None
    assert (answer.fields if answer.status == 422 else None) == want


RELEASE = {"suspend": False, "template": {"metadata": {"labels": {"quota": "team"}}}}


@pytest.mark.parametrize(
    ("status", "is_allowed"),
    [
        pytest.param({}, True, id="never started"),
        pytest.param(STARTED | {"active": 1}, False, id="running"),
        pytest.param(
            STARTED | {"active": 1, "conditions": [SUSPENDED]}, False, id="still stopping"
        ),
        pytest.param(
            STARTED | {"conditions": [SUSPENDED]}, True, id="stopped again", marks=of_1_36
        ),
        pytest.param({"conditions": [SUSPENDED]}, True, id="stopped, start time removed"),
    ],
)
def test_the_template_may_change_while_nothing_runs(
    api: Api, status: Json, is_allowed: bool
) -> None:
    api.create(api.jobs, job("a"))
    api.merged(f"{api.jobs}/a/status", {"status": status})
    answer = api.merge(f"{api.jobs}/a", {"spec": RELEASE})
    assert answer.status == (200 if is_allowed else 422)
    if not is_allowed:
        assert answer.fields == {"spec.template"}


def test_an_unsuspended_job_keeps_its_template(api: Api) -> None:
    api.create(api.jobs, job("a", suspend=False))
    assert api.merge(f"{api.jobs}/a", {"spec": RELEASE}).fields == {"spec.template"}


@pytest.mark.parametrize(
    ("pod_patch", "status"),
    [
        pytest.param({"nodeSelector": {"zone": "a"}}, 200, id="node selector"),
        pytest.param({"schedulingGates": [{"name": "example.com/gate"}]}, 200, id="gates"),
        pytest.param(
            {
                "containers": [
                    {"name": "main", "image": "image", "resources": {"requests": {"cpu": "2"}}}
                ]
            },
            200,
            id="requests",
            marks=of_1_36,
        ),
        pytest.param({"containers": [{"name": "main", "image": "new"}]}, 422, id="image"),
        pytest.param({"schedulerName": "other"}, 422, id="scheduler"),
    ],
)
def test_mutable_fields_of_a_suspended_template(api: Api, pod_patch: Json, status: int) -> None:
    api.create(api.jobs, job("a"))
    assert api.merge(f"{api.jobs}/a", {"spec": {"template": {"spec": pod_patch}}}).status == status


@pytest.mark.parametrize(
    ("spec", "patch", "fields"),
    [
        pytest.param({}, {"completions": 5}, {"spec.completions"}, id="completions"),
        pytest.param({}, {"parallelism": 5}, None, id="parallelism"),
        pytest.param(
            {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
            *({"completions": 3, "parallelism": 3}, None),
            id="elastic",
        ),
        pytest.param(
            {"completionMode": "Indexed", "completions": 2, "parallelism": 2},
            *({"completions": 4, "parallelism": 3}, {"spec.completions"}),
            id="elastic, not in step",
        ),
    ],
)
def test_job_counts(api: Api, spec: Json, patch: Json, fields: set[str] | None) -> None:
    api.create(api.jobs, job("a", **spec))
    answer = api.merge(f"{api.jobs}/a", {"spec": patch})
    assert (answer.fields if answer.status == 422 else None) == fields


@pytest.mark.parametrize("guard", [{"uid": "wrong"}, {"resourceVersion": "1"}])
def test_guards_of_a_job_patch(api: Api, guard: Json) -> None:
    api.create(api.jobs, job("a"))
    answer = api.merge(f"{api.jobs}/a", {"metadata": guard, "spec": {"suspend": False}})
    assert answer.status == (422 if "uid" in guard else 409)


def ended(condition: str, before: str, **status: Json) -> Json:
    conditions = [{"type": kind, "status": "True"} for kind in (before, condition) if kind]
    return {"conditions": conditions, **status}


DONE = {"completionTime": "2026-11-01T11:00:00Z", "succeeded": 1}


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        pytest.param(ended("Complete", "SuccessCriteriaMet", **DONE), None, id="complete"),
        pytest.param(ended("Failed", "FailureTarget"), None, id="failed"),
        pytest.param(
            ended("Complete", "", **DONE), {"status.conditions"}, id="without its criteria"
        ),
        pytest.param(ended("Failed", ""), {"status.conditions"}, id="without its target"),
        pytest.param(
            ended("Complete", "SuccessCriteriaMet"), {"status.completionTime"}, id="without a time"
        ),
        pytest.param(
            ended("Failed", "FailureTarget", active=1), {"status.active"}, id="with active pods"
        ),
        pytest.param({"startTime": None}, {"status.startTime"}, id="start time removed"),
    ],
)
def test_how_a_job_may_end(api: Api, status: Json, fields: set[str] | None) -> None:
    api.create(api.jobs, job("a", suspend=False))
    api.merged(f"{api.jobs}/a/status", {"status": STARTED})
    answer = api.merge(f"{api.jobs}/a/status", {"status": status})
    assert (answer.fields if answer.status == 422 else None) == fields


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": []}, id="conditions removed"),
        pytest.param(
            ended("Complete", "SuccessCriteriaMet", **DONE)
            | {"conditions": [{"type": "Failed", "status": "True"}]},
            id="another end",
        ),
    ],
)
def test_the_end_of_a_job_is_final(api: Api, status: Json) -> None:
    api.create(api.jobs, job("a", suspend=False))
    done = STARTED | ended("Complete", "SuccessCriteriaMet", **DONE)
    api.merged(f"{api.jobs}/a/status", {"status": done})
    answer = api.merge(f"{api.jobs}/a/status", {"status": status})
    assert "status.conditions" in answer.fields


def test_a_status_write_of_a_job_may_label_it(api: Api) -> None:
    api.create(api.jobs, job("a"))
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"parallelism": 9}, "status": STARTED}
    after = api.merged(f"{api.jobs}/a/status", patch)
    assert after["metadata"]["labels"]["x"] == "y"
    assert after["spec"]["parallelism"] == 1


@of_1_36
def test_a_strategic_patch_merges_containers_by_name(api: Api) -> None:
    api.create(api.jobs, job("a"))
    wanted = {"name": "main", "resources": {"limits": {"cpu": "2"}}}
    answer = api.ask(
        "PATCH",
        f"{api.jobs}/a",
        {"spec": {"template": {"spec": {"containers": [wanted]}}}},
        content_type="application/strategic-merge-patch+json",
    )
    assert answer.status == 200
    (container,) = answer.body["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]["limits"]) == ("image", {"cpu": "2"})


# ------------------------------------------------------------------------------- pods and nodes


def test_a_pod_starts_pending_with_its_priority(api: Api) -> None:
    name = f"high-{api.namespace}"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", body | {"metadata": {"name": name}})
    # The real server's admission learns of the class from its own watch.
    body = pod("a", priorityClassName=name)
    until(lambda: api.ask("POST", api.pods, body).status == 201, EVENTUALLY_SECONDS)
    made = api.get(f"{api.pods}/a")
    assert (made["status"]["phase"], made["spec"]["priority"]) == ("Pending", 7)
    assert api.ask("POST", api.pods, pod("b", priorityClassName="none")).status == 403


def test_requests_default_from_limits(api: Api) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "1"},
    }
    made = api.create(api.pods, body)
    got = made["spec"]["containers"][0]["resources"]["requests"]
    assert got == {"cpu": "1", "memory": "1Gi"}


def test_scheduling_gates_can_only_be_removed(api: Api) -> None:
    api.create(api.pods, pod("a", schedulingGates=[{"name": "example.com/gate"}]))
    other = {"spec": {"schedulingGates": [{"name": "example.com/other"}]}}
    assert api.merge(f"{api.pods}/a", other).status == 422
    after = api.merged(f"{api.pods}/a", {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in after["spec"]


def test_a_pod_cannot_be_moved_by_a_patch(api: Api) -> None:
    api.create(api.pods, pod("a"))
    assert api.merge(f"{api.pods}/a", {"spec": {"nodeName": "x"}}).status == 422


def test_an_unbound_pod_is_deleted_at_once(api: Api) -> None:
    api.create(api.pods, pod("a"))
    version = api.get(api.pods)["metadata"]["resourceVersion"]
    with api.watch(api.pods, resourceVersion=version) as watch:
        answer = api.ask("DELETE", f"{api.pods}/a")
        assert (answer.status, answer.body["kind"]) == (200, "Pod")
        assert watch.take(2) == [("MODIFIED", "a"), ("DELETED", "a")]


def test_a_bound_pod_gets_its_grace_period(api: Api) -> None:
    api.create(api.pods, pod("a", nodeName="x", terminationGracePeriodSeconds=600))
    marked = api.ask("DELETE", f"{api.pods}/a").body["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 600
    assert marked["deletionTimestamp"] > marked["creationTimestamp"]
    assert api.ask("GET", f"{api.pods}/a").status == 200
    api.ask("DELETE", f"{api.pods}/a", query={"gracePeriodSeconds": "0"})
    assert api.ask("GET", f"{api.pods}/a").status == 404


def test_an_ended_pod_is_deleted_at_once(api: Api) -> None:
    api.create(api.pods, pod("a", nodeName="x"))
    api.merged(f"{api.pods}/a/status", {"status": {"phase": "Succeeded"}})
    api.ask("DELETE", f"{api.pods}/a")
    assert api.ask("GET", f"{api.pods}/a").status == 404


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("spec.nodeName=x", ["bound"], id="node"),
        pytest.param("spec.nodeName=", ["free"], id="no node"),
        pytest.param("status.phase!=Succeeded", ["bound", "free"], id="phase"),
    ],
)
def test_pods_by_field(api: Api, selector: str, names: list[str]) -> None:
    api.create(api.pods, pod("free"))
    api.create(api.pods, pod("bound", nodeName="x"))
    assert api.names(api.pods, fieldSelector=selector) == names


def test_a_node_is_created_with_its_status(api: Api) -> None:
    name = f"node-{api.namespace}"
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    body["status"] = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    made = api.create("/api/v1/nodes", body)
    assert made["status"]["allocatable"] == {"cpu": "4"}
    path = f"/api/v1/nodes/{name}"
    after = api.merged(path, {"spec": {"unschedulable": True}, "status": {"capacity": None}})
    assert after["status"]["allocatable"] == {"cpu": "4"}
    after = api.merged(f"{path}/status", {"status": {"allocatable": {"cpu": "2"}}})
    assert after["status"]["allocatable"] == {"cpu": "2"}
    api.ask("DELETE", path)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod("a", containers="main"), id="containers"),
        pytest.param(pod("a") | {"spec": 5}, id="spec"),
        pytest.param(pod("a") | {"metadata": {"name": "a", "labels": {"n": 5}}}, id="label"),
        pytest.param(pod("a") | {"metadata": {"name": "a", "labels": "x"}}, id="labels"),
        pytest.param(
            pod(
                "a",
                containers=[
                    {"name": "a", "image": "b", "resources": {"requests": {"cpu": "many"}}}
                ],
            ),
            id="quantity",
        ),
    ],
)
def test_values_of_the_wrong_type_are_bad_requests(api: Api, body: Json) -> None:
    assert api.ask("POST", api.pods, body).status == 400


# --------------------------------------------------------------------------- leases and events


def test_a_lease_is_taken_by_one_holder(api: Api) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    made = api.create(path, body | {"spec": {"holderIdentity": "one", "leaseDurationSeconds": 15}})
    guard = {"resourceVersion": made["metadata"]["resourceVersion"]}
    mine = {"metadata": guard, "spec": {"holderIdentity": "two"}}
    assert api.merge(f"{path}/a", mine).status == 200
    theirs = {"metadata": guard, "spec": {"holderIdentity": "three"}}
    assert api.merge(f"{path}/a", theirs).status == 409
    bare = body | {"spec": {"holderIdentity": "four"}}
    assert api.ask("PUT", f"{path}/a", bare).status == 422


def event(api: Api, **fields: Json) -> Json:
    about = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": api.namespace}
    whole = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a"},
        "eventTime": "2026-11-01T10:00:00.123456Z",
        "reportingController": "example.com/queue",
        "reportingInstance": "queue-0",
        "action": "Dequeue",
        "reason": "Dequeued",
        "type": "Normal",
        "note": "text",
        "regarding": about,
        **fields,
    }
    return {key: value for key, value in whole.items() if value is not None}


def events(api: Api) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{api.namespace}/events"


def test_an_event_is_one_object_under_two_groups(api: Api) -> None:
    api.create(events(api), event(api))
    core = api.get(f"/api/v1/namespaces/{api.namespace}/events/a")
    assert (core["message"], core["reportingComponent"]) == ("text", "example.com/queue")
    assert core["involvedObject"]["name"] == "p"
    new = api.get(f"{events(api)}/a")
    assert (new["note"], new["regarding"]["name"]) == ("text", "p")
    core_events = f"/api/v1/namespaces/{api.namespace}/events"
    assert api.names(core_events, fieldSelector="involvedObject.name=p,reason=Dequeued") == ["a"]
    assert api.names(core_events, fieldSelector="involvedObject.name=q") == []


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        pytest.param({"eventTime": None}, "eventTime", id="time"),
        pytest.param({"reportingController": None}, "reportingController", id="controller"),
        pytest.param({"reportingInstance": None}, "reportingInstance", id="instance"),
        pytest.param({"action": None}, "action", id="action"),
        pytest.param({"reason": None}, "reason", id="reason"),
        pytest.param({"type": "Loud"}, "type", id="type"),
        pytest.param({"note": "x" * 1025}, "message", id="long note"),
        pytest.param({"series": {"count": 1}}, "series.count", id="a series of one"),
    ],
)
def test_events_are_checked(api: Api, fields: Json, wrong: str) -> None:
    answer = api.ask("POST", events(api), event(api, **fields))
    assert answer.status == 422
    assert wrong in answer.fields


def test_only_the_series_of_an_event_changes(api: Api) -> None:
    api.create(events(api), event(api))
    series = {"count": 2, "lastObservedTime": "2026-11-01T10:00:01.000000Z"}
    patch = {"series": series}
    answer = api.ask("PATCH", f"{events(api)}/a", patch, content_type=MERGE)
    assert (answer.status, answer.body["series"]["count"]) == (200, 2)
    assert api.merge(f"{events(api)}/a", {"note": "new"}).status == 422


# --------------------------------------------------------------------------------------- reviews


def test_a_review_of_an_unknown_token(api: Api) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    made = api.create(path, body | {"spec": {"token": "nobody's"}})
    assert "authenticated" not in made["status"]
    assert made["status"]["error"]


def test_a_review_of_access(api: Api) -> None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    attributes = {"namespace": api.namespace, "resource": "pods", "verb": "list"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    made = api.create(path, body | {"spec": {"resourceAttributes": attributes}})
    assert made["status"]["allowed"] is True
