"""How the API server changes pods, in tables: as the plugins of kube-apiserver do."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from queue_controllers.decision.pod_admission import (
    MAX_DIFFERENCES_CHARS,
    AdmissionObjects,
    apply_admission_to_template,
    apply_pod_admission,
    overlay_body,
)
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate, template_body
from shared_api.objects.limit_range import LimitRange
from shared_api.objects.runtime_class import RuntimeClass
from shared_api.pod_requests import pod_requests
from tests.job_situations import facts

Json = dict[str, Any]

NAMED: Final = {
    "priorityClassName": "gold",
    "runtimeClassName": "kata",
    "serviceAccountName": "bot",
}
EVERYTHING: Final = {
    "priority_classes": ("gold",),
    "runtime_classes": {"kata": RuntimeClass()},
    "service_accounts": ("bot",),
}


def template(*containers: Json, **spec: Any) -> ScheduledPodTemplate:
    """Return a template of containers with these resources; c0, c1, ..."""
    named = [{"name": f"c{n}", "resources": each} for n, each in enumerate(containers)]
    return msgspec.convert({"spec": {"containers": named, **spec}}, ScheduledPodTemplate)


def limits(name: str = "r", kind: str = "Container", **item: Json) -> LimitRange:
    body = {"metadata": {"name": name}, "spec": {"limits": [{"type": kind, **item}]}}
    return msgspec.convert(body, LimitRange)


def runtime(**body: Any) -> RuntimeClass:
    return msgspec.convert({"metadata": {"name": "kata"}, **body}, RuntimeClass)


def within(*ranges: LimitRange, kata: RuntimeClass | None = None) -> AdmissionObjects:
    runtimes = None if kata is None else {"kata": kata}
    return AdmissionObjects(limit_ranges=ranges, runtime_classes=runtimes)


CPU1: Final = {"requests": {"cpu": "1"}}
SIDECAR: Final = {"name": "s", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("of", "objects", "want"),
    [
        pytest.param(template({}), within(), {}, id="nothing is added without any object"),
        pytest.param(
            template({}),
            within(limits(defaultRequest={"cpu": "1500m"})),
            {"cpu": 1500},
            id="a missing request",
        ),
        pytest.param(
            template(CPU1),
            within(limits(defaultRequest={"cpu": "2", "memory": "1Gi"})),
            {"cpu": 1000, "memory": 1 << 30},
            id="each resource on its own",
        ),
        pytest.param(
            template({}, {}),
            within(limits(defaultRequest={"cpu": "1"})),
            {"cpu": 2000},
            id="for each container",
        ),
        pytest.param(
            template({}),
            within(limits(default={"cpu": "3"})),
            {"cpu": 3000},
            id="a default limit is the default request",
        ),
        pytest.param(
            template({}),
            within(limits(max={"cpu": "4"})),
            {"cpu": 4000},
            id="a maximum is the default limit",
        ),
        pytest.param(
            template({}),
            within(limits(min={"cpu": "250m"})),
            {"cpu": 250},
            id="a minimum is the default request",
        ),
        pytest.param(
            template({"limits": {"cpu": "2"}}),
            within(limits(defaultRequest={"cpu": "1"})),
            {"cpu": 2000},
            id="a stated limit is the request before any default",
        ),
        pytest.param(
            template({}),
            within(
                limits("a", defaultRequest={"cpu": "1"}), limits("b", defaultRequest={"cpu": "2"})
            ),
            {"cpu": 2000},
            id="the largest of several LimitRanges",
        ),
        pytest.param(
            template({"limits": {"cpu": "1"}}),
            within(limits(kind="Pod", max={"cpu": "2"})),
            {"cpu": 1000},
            id="limits on pods set no default",
        ),
        pytest.param(
            template(CPU1, initContainers=[{"name": "i"}]),
            within(limits(defaultRequest={"cpu": "3"})),
            {"cpu": 3000},
            id="an init container",
        ),
        pytest.param(
            template(CPU1, initContainers=[SIDECAR]),
            within(limits(defaultRequest={"cpu": "3"})),
            {"cpu": 4000},
            id="a sidecar",
        ),
        pytest.param(
            template({}, resources={"limits": {"cpu": "5"}}),
            within(limits(defaultRequest={"cpu": "1"})),
            {"cpu": 5000},
            id="a pod's own limit, set before its containers'",
        ),
        pytest.param(
            template(CPU1, runtimeClassName="kata"),
            within(kata=runtime(overhead={"podFixed": {"cpu": "500m"}})),
            {"cpu": 1500},
            id="the overhead of a RuntimeClass",
        ),
        pytest.param(
            template({}, runtimeClassName="kata"),
            within(
                limits(defaultRequest={"cpu": "1"}),
                kata=runtime(overhead={"podFixed": {"cpu": "500m"}}),
            ),
            {"cpu": 1500},
            id="both",
        ),
        pytest.param(
            template(CPU1),
            within(kata=runtime(overhead={"podFixed": {"cpu": "500m"}})),
            {"cpu": 1000},
            id="a RuntimeClass that is not named",
        ),
    ],
)
def test_the_requests_of_pods(
    of: ScheduledPodTemplate, objects: AdmissionObjects, want: dict[str, int]
) -> None:
    got = apply_admission_to_template(of, objects)
    assert pod_requests(got.template.spec) == want
    assert got.refusal == ""
    again = apply_admission_to_template(got.template, objects)
    assert again.template is got.template, "existing pods have been admitted"
    assert again.differences == ()
    assert (got.differences == ()) == (got.template is of)


def test_differences_are_reported_with_their_reasons() -> None:
    kata = runtime(
        overhead={"podFixed": {"cpu": "500m"}},
        scheduling={"nodeSelector": {"kata": "true"}, "tolerations": [{"key": "kata"}]},
    )
    objects = within(limits("defaults", default={"memory": "1Gi"}), kata=kata)
    got = apply_admission_to_template(template(CPU1, runtimeClassName="kata"), objects)
    assert got.differences == (
        "requests memory 1Gi of container c0 (LimitRange defaults)",
        "limits memory 1Gi of container c0 (LimitRange defaults)",
        "overhead cpu 500m (RuntimeClass kata)",
        "node selector kata=true (RuntimeClass kata)",
        "1 more tolerations (RuntimeClass kata)",
    )
    assert got.template.spec.node_selector == {"kata": "true"}
    assert got.template.spec.tolerations == ({"key": "kata"},)


MOST: Final = "LimitRange r allows at most"
LEAST: Final = "LimitRange r asks for at least"


@pytest.mark.parametrize(
    ("of", "objects", "want"),
    [
        pytest.param(
            template({"requests": {"cpu": "4"}}),
            within(limits(max={"cpu": "2"})),
            f"{MOST} cpu 2 per container, the job asks 4 (container c0)",
            id="a request over the maximum",
        ),
        pytest.param(
            template(CPU1, {"limits": {"cpu": "2500m"}}),
            within(limits(max={"cpu": "2"})),
            f"{MOST} cpu 2 per container, the job asks 2500m (container c1)",
            id="a limit over the maximum",
        ),
        pytest.param(
            template({"requests": {"cpu": "50m"}}),
            within(limits(min={"cpu": "100m"})),
            f"{LEAST} cpu 100m per container, the job asks 50m (container c0)",
            id="a request under the minimum",
        ),
        pytest.param(
            template(CPU1, CPU1, CPU1),
            within(limits(kind="Pod", max={"cpu": "2"}, min={"memory": "1"})),
            f"{LEAST} memory 1 per pod, the job states none",
            id="a minimum of pods without a request",
        ),
        pytest.param(
            template({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}),
            within(limits(kind="Pod", max={"cpu": "2"})),
            f"{MOST} cpu 2 per pod, the job asks 3",
            id="a pod over the maximum of pods",
        ),
        pytest.param(
            template(CPU1),
            within(limits(kind="Pod", max={"cpu": "2"})),
            f"{MOST} cpu 2 per pod, the job states no limit",
            id="a pod without a limit",
        ),
        pytest.param(
            template({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
            within(limits(maxLimitRequestRatio={"cpu": "2"})),
            "LimitRange r allows a limit of at most 2 times the request of cpu per container,"
            " the job has request 1 and limit 3 (container c0)",
            id="a limit too far above the request",
        ),
        pytest.param(
            template({"requests": {"cpu": "1"}, "limits": {"cpu": "3"}}),
            within(limits(maxLimitRequestRatio={"cpu": "3"})),
            "",
            id="a ratio at the limit",
        ),
        pytest.param(
            template({"requests": {"cpu": "4"}}),
            within(limits(default={"cpu": "1"})),
            "LimitRange r gives containers without a limit cpu 1, the job requests 4"
            " (container c0)",
            id="a request above the default limit",
        ),
        pytest.param(
            template({"requests": {"cpu": "2"}}), within(limits(max={"cpu": "2"})), "", id="just so"
        ),
        pytest.param(
            template(CPU1, runtimeClassName="kata", overhead={"cpu": "1"}),
            within(kata=runtime(overhead={"podFixed": {"cpu": "2"}})),
            "RuntimeClass kata adds overhead cpu 2 to each pod, the job's template states cpu 1",
            id="another overhead",
        ),
        pytest.param(
            template(CPU1, runtimeClassName="kata", nodeSelector={"a": "x"}),
            within(kata=runtime(scheduling={"nodeSelector": {"a": "y"}})),
            "RuntimeClass kata asks for nodes labelled a=y, the job's template for x",
            id="other nodes",
        ),
    ],
)
def test_why_pods_would_be_refused(
    of: ScheduledPodTemplate, objects: AdmissionObjects, want: str
) -> None:
    assert apply_admission_to_template(of, objects).refusal == want


@pytest.mark.parametrize(
    ("spec", "objects", "want"),
    [
        pytest.param(NAMED, EVERYTHING, "", id="all exist"),
        pytest.param(NAMED, {}, "", id="nothing can be read"),
        pytest.param(
            NAMED,
            EVERYTHING | {"priority_classes": ()},
            "PriorityClass gold does not exist",
            id="no priority class",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            {"priority_classes": ()},
            "",
            id="those of the system always exist",
        ),
        pytest.param(
            NAMED,
            EVERYTHING | {"runtime_classes": {}},
            "RuntimeClass kata does not exist",
            id="no runtime class",
        ),
        pytest.param(
            NAMED,
            EVERYTHING | {"service_accounts": ()},
            "ServiceAccount bot does not exist in the job's namespace",
            id="no service account",
        ),
        pytest.param(
            {"serviceAccount": "bot"},
            {"service_accounts": ()},
            "ServiceAccount bot does not exist in the job's namespace",
            id="by its older name",
        ),
        pytest.param(
            {"serviceAccountName": "default"},
            {"service_accounts": ()},
            "",
            id="the default account is created by the cluster",
        ),
    ],
)
def test_objects_that_a_template_names_and_that_do_not_exist(
    spec: Json, objects: Json, want: str
) -> None:
    got = apply_admission_to_template(template(CPU1, **spec), AdmissionObjects(**objects))
    assert got.refusal == want


def test_invalid_amounts_are_left_to_the_unit() -> None:
    of = template({"requests": {"cpu": "one"}})
    got = apply_admission_to_template(of, within(limits(max={"cpu": "1"})))
    assert (got.template, got.refusal) == (of, "")


# --- jobs -----------------------------------------------------------------------------------------


def of_job(**pod_set: Any) -> Any:
    job = facts()
    changed = msgspec.structs.replace(job.pod_sets[0], **pod_set)
    return msgspec.structs.replace(job, pod_sets=(changed,))


SMALL: Final = within(limits("small", max={"cpu": "500m"}, defaultRequest={"memory": "1Gi"}))


def test_a_job_has_the_demand_of_its_future_pods() -> None:
    job = facts()
    got = apply_pod_admission(job, SMALL)
    (before,), (after,) = job.pod_sets, got.pod_sets
    assert after.written == before.template
    assert pod_requests(after.template.spec) == {"cpu": 1000, "memory": 1 << 30}
    assert got.template_differences.startswith("requests memory 1Gi of container")
    assert got.pods_refused.startswith("LimitRange small allows at most cpu 500m per container")


def test_a_sum_is_not_checked_like_a_pod() -> None:
    job = of_job(is_sum=True)
    got = apply_pod_admission(job, SMALL)
    assert (got.pod_sets, got.template_differences, got.pods_refused) == (job.pod_sets, "", "")


def test_pods_that_a_sum_stands_for_need_their_service_account() -> None:
    job = of_job(is_sum=True, template=template(CPU1, serviceAccountName="bot"))
    nobody = AdmissionObjects(service_accounts=())
    want = "ServiceAccount bot does not exist in the job's namespace"
    assert apply_pod_admission(job, nobody).pods_refused == want
    assert apply_pod_admission(job, AdmissionObjects(service_accounts=("bot",))).pods_refused == ""


def test_templates_that_only_an_operator_completes_are_not_judged() -> None:
    job = of_job(has_limits=False)
    got = apply_pod_admission(job, SMALL)
    assert got.template_differences
    assert got.pods_refused == ""
    named = of_job(has_limits=False, template=template(CPU1, **NAMED))
    nothing = AdmissionObjects(priority_classes=())
    assert apply_pod_admission(named, nothing).pods_refused == "PriorityClass gold does not exist"


def test_existing_pods_are_unchanged() -> None:
    job = facts()
    held = msgspec.structs.replace(job.kind, held_by_gates=True)
    gated = msgspec.structs.replace(job, kind=held)
    assert apply_pod_admission(gated, SMALL) is gated


def test_pod_sets_are_named_and_the_text_is_cut() -> None:
    job = facts()
    sets = tuple(msgspec.structs.replace(job.pod_sets[0], name=f"s{n}") for n in range(40))
    reported = apply_pod_admission(
        msgspec.structs.replace(job, pod_sets=sets), SMALL
    ).template_differences
    assert reported.startswith("pod set s0: requests memory 1Gi")
    assert len(reported) == MAX_DIFFERENCES_CHARS


def test_a_whole_template_gets_what_the_reduced_one_has() -> None:
    whole = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [
                {"name": "c0", "command": ["x"], "resources": {"claims": [{"name": "gpu"}]}}
            ],
            "hostname": "h",
            "runtimeClassName": "kata",
        },
    }
    kata = runtime(overhead={"podFixed": {"cpu": "500m"}})
    objects = within(limits(defaultRequest={"cpu": "1"}), kata=kata)
    read = msgspec.convert(whole, ScheduledPodTemplate)
    reduced = template_body(apply_admission_to_template(read, objects).template)
    assert overlay_body(whole, reduced) == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [
                {
                    "name": "c0",
                    "command": ["x"],
                    "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": "1"}},
                }
            ],
            "hostname": "h",
            "runtimeClassName": "kata",
            "overhead": {"cpu": "500m"},
        },
    }
