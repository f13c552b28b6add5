"""The chart's table of kinds: what a switch enables, and that it agrees with the adapters."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from queue_controllers.configuration import load_configuration, parse_flags, settings_of
from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.extensions.argo_workflow import read_resources
from queue_controllers.extensions.declared_kind import DeclaredAdapter, DeclaredKind
from queue_controllers.extensions.spark_application import SparkApplication, SparkApplicationAdapter
from queue_controllers.job_families.gated_pods import GatedPods
from queue_controllers.jobframework.generic_job import GenericJob
from shared_api.well_known_kinds import KNOWN_JOB_KINDS
from shared_api.well_known_labels import SCHEDULE_ADMISSION
from tests.charts.render import CHART, GUARD_V1, POLICY_V1, HelmFailed, of_kind, render, rules_of
from tests.charts.test_chart import configurations, containers
from tests.charts.test_roles import lines
from tests.charts.values_table import GATED, SWITCHES, UPSTREAM, WIDGET, values_with
from tests.sample_jobs import sample

Json = Any

ADAPTERS: Final = {each.kind.key: each for each in EXTENSIONS if not each.kind.held_by_gates}
PATCHES: Final = "get list patch watch"
RULES: Final = ("ClusterRole", "koord-queue-controllers")

GETS: Final = {
    "batchjob": {
        "cronjobs.batch: get",
        "jobsets.jobset.x-k8s.io: get",
        "mpijobs.kubeflow.org: get",
        "rayjobs.ray.io: get",
        "rayclusters.ray.io: get",
    },
    "jobset": {"trainjobs.trainer.kubeflow.org: get"},
    "ray": {"raycronjobs.ray.io: get", "rayservices.ray.io: get"},
    "argo": {"cronworkflows.argoproj.io: get"},
    "trainjob": {"jobsets.jobset.x-k8s.io: get"},
}
"""Kinds that are read in addition: possible owners of a job, and sources of its pods."""

OF_ALL: Final = "appwrappers.workload.codeflare.dev: get"
"""Possible owners of jobs of every kind."""

READ_OF_PODS: Final = {
    "pod": {"replicasets.apps: get", "deployments.apps: get"},
    "podgroup": {
        "podgroups.scheduling.sigs.k8s.io: get list watch",
        "podgroups.scheduling.x-k8s.io: get list watch",
    },
    "statefulset": {"statefulsets.apps: get list watch"},
    "leaderworkerset": {
        "leaderworkersets.leaderworkerset.x-k8s.io: get list watch",
        "statefulsets.apps: get",
    },
}
"""Kinds that are read if pods are queued: possible owners, and, watched, those with the number of
pods."""


def enabled(values: Json) -> list[str]:
    """Return the extensions that the controllers are configured to serve."""
    arguments = containers(values)["controllers"]["args"]
    (named,) = (each for each in arguments if each.startswith("--enabled-extensions="))
    return [each for each in named.partition("=")[2].split(",") if each]


def holding_policy(values: Json) -> Json:
    """Return the policy that holds jobs which name a queue."""
    return of_kind(render(values), "MutatingAdmissionPolicy")["koord-queue-hold-jobs"]["spec"]


# ------------------------------------------------------------------------------ kinds of one count


def test_the_policy_of_growth_covers_the_kinds_whose_grant_is_noted() -> None:
    """Of the others the annotation says nothing, and the policy would refuse all growth."""
    kinds = {"config": {"kinds": [WIDGET]}}
    values = values_with(*SWITCHES, *GATED, controllers=kinds, admissionPolicy={"growth": True})
    rules = of_kind(render(values), "ValidatingAdmissionPolicy")["koord-queue-release-growth"][
        "spec"
    ]["matchConstraints"]["resourceRules"]
    covered = {each["resources"][0] for each in rules}
    noted = {
        adapter.kind.plural
        for key, adapter in (ADAPTERS | {"widget": DeclaredAdapter(DECLARED)}).items()
        if any(each.is_sized for each in adapter.pod_sets(sample_of(adapter, key)))
    }
    assert covered == noted == {"jobs", "jaxjobs", "widgets"}


DECLARED: Final = msgspec.convert(WIDGET, DeclaredKind)


def sample_of(adapter: GenericJob[Any], key: str) -> Any:
    pods: Json = {"spec": {"containers": []}}
    own = {
        "job": {},
        "widget": {"spec": {"leader": pods, "workers": {"pod": pods, "count": 2}}},
    }
    body = own[key] if key in own else sample(key)
    return msgspec.json.decode(json.dumps(body), type=adapter.object_type)


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        pytest.param({"growth": True}, [], id="the server has no such policies"),
        pytest.param(
            {"growth": True, "guardRelease": False}, [GUARD_V1], id="releases are not guarded"
        ),
        pytest.param({"growth": True, "enabled": False}, [GUARD_V1], id="no policies are wanted"),
    ],
)
def test_growth_needs_the_policies_that_guard_its_grant(policy: Json, served: list[str]) -> None:
    with pytest.raises(HelmFailed, match="growth needs the policies"):
        render({"admissionPolicy": policy}, api_versions=served)


@pytest.mark.parametrize("growth", [True, False])
def test_the_controllers_know_which_jobs_may_go_back_to_their_grant(growth: bool) -> None:
    programs = containers({"admissionPolicy": {"growth": growth}})
    assert ("--keep-grants=true" in programs["controllers"]["args"]) is growth


# ------------------------------------------------------------------------------------ switches


def test_each_kind_of_the_controllers_has_a_switch() -> None:
    assert {key for keys in SWITCHES.values() for key in keys} == set(ADAPTERS)
    assert {*ADAPTERS, *GATED} == {each.kind.key for each in EXTENSIONS}
    values = yaml.safe_load((CHART / "values.yaml").read_text())["extension"]
    offered = {name: said["enable"] for name, said in values.items() if "enable" in said}
    assert offered == {name: name == "batchjob" for name in (*SWITCHES, *GATED)}


@pytest.mark.parametrize("switch", [*SWITCHES, *GATED])
def test_a_switch_enables_its_kinds_and_no_others(switch: str) -> None:
    assert enabled(values_with(switch)) == sorted(SWITCHES.get(switch, (switch,)))


def test_upstreams_kinds_can_be_enabled_by_its_names() -> None:
    names = [name for name, said in UPSTREAM["extension"].items() if "enable" in said]
    on = {"extension": {name: {"enable": True} for name in names}}
    assert set(enabled(on)) == {key for name in names for key in SWITCHES[name]}


def test_a_declared_kind_is_served_without_any_other() -> None:
    values = values_with(controllers={"config": {"kinds": [WIDGET]}})
    assert enabled(values) == []
    assert "koord-queue-controllers" in of_kind(render(values), "ServiceAccount")


# -------------------------------------------------------------------------------------- rights


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_controllers_may_do_what_the_kinds_need_and_no_more(switch: str) -> None:
    kinds = [ADAPTERS[key].kind for key in SWITCHES[switch]]
    none = values_with(controllers={"config": {"kinds": [WIDGET]}})
    plain = lines(rules_of(render(none), *RULES)) - {f"widgets.example.com: {PATCHES}"}
    got = lines(rules_of(render(values_with(switch)), *RULES))
    own = {f"{kind.plural}.{kind.group}: {PATCHES}" for kind in kinds}
    assert got - plain == own | GETS.get(switch, set())
    assert plain - got == ({OF_ALL} if switch == "appwrapper" else set())
    assert OF_ALL in plain


@pytest.mark.parametrize("switch", GATED)
def test_if_pods_are_queued_the_controllers_may_patch_and_delete_them(switch: str) -> None:
    none = values_with(controllers={"config": {"kinds": [WIDGET]}})
    plain = lines(rules_of(render(none), *RULES)) - {f"widgets.example.com: {PATCHES}"}
    got = lines(rules_of(render(values_with(switch)), *RULES)) | {OF_ALL}
    assert got - plain == {"pods: delete patch"} | READ_OF_PODS[switch]
    assert plain <= got


@pytest.mark.parametrize("switch", GATED)
def test_what_says_how_many_pods_there_are_may_be_watched(switch: str) -> None:
    (adapter,) = (each for each in EXTENSIONS if each.kind.key == switch)
    assert isinstance(adapter, GatedPods)
    wanted = {f"{each.plural}.{each.group}: get list watch" for each in adapter.sizing_kinds}
    assert wanted == {each for each in READ_OF_PODS[switch] if each.endswith("watch")}


def test_a_watched_kind_is_not_repeated_among_the_kinds_read() -> None:
    got = lines(rules_of(render(values_with("jobset", "trainjob")), *RULES))
    assert [line for line in got if "jobsets" in line] == [f"jobsets.jobset.x-k8s.io: {PATCHES}"]
    got = lines(rules_of(render(values_with("leaderworkerset", "statefulset")), *RULES))
    assert [line for line in got if "statefulsets" in line] == ["statefulsets.apps: get list watch"]


# -------------------------------------------------------------------------- held at the creation


@pytest.mark.parametrize("key", ADAPTERS)
def test_the_policy_agrees_with_the_adapter_of_a_kind(key: str) -> None:
    adapter = ADAPTERS[key]
    (switch,) = (name for name, keys in SWITCHES.items() if key in keys)
    policy, kind = holding_policy(values_with(switch)), adapter.kind
    rule = {"apiGroups": [kind.group], "apiVersions": [kind.version], "resources": [kind.plural]}
    assert {**rule, "operations": ["CREATE"]} in policy["matchConstraints"]["resourceRules"]
    patch: Json = adapter.suspend_patch(adapter.object_type())
    names = []
    while isinstance(patch, dict):
        ((name, patch),) = patch.items()
        names.append(name)
    (mutation,) = (
        one["jsonPatch"]["expression"]
        for one in policy["mutations"]
        if f"'{kind.group}/{kind.kind}'" in one["jsonPatch"]["expression"]
    )
    assert mutation.endswith(f"[JSONPatch{{op: 'add', path: '/{'/'.join(names)}', value: true}}]")


@pytest.mark.parametrize("key", ADAPTERS)
def test_the_policy_ignores_jobs_of_another_controller(key: str) -> None:
    adapter = ADAPTERS[key]
    (switch,) = (name for name, keys in SWITCHES.items() if key in keys)
    said = [one["expression"] for one in holding_policy(values_with(switch))["matchConditions"]]
    (about,) = (
        [one for one in said if f"'{adapter.kind.version}' && request.kind.kind" in one
         and f"'{adapter.kind.kind}'" in one] or [""]
    )  # fmt: skip
    usual = re.findall(r"\['managedBy'\]|managedBy'\]\.orValue\(''\) in \['', '([^']*)'\]", about)
    if not hasattr(adapter, "foreign_manager"):
        assert usual == []
        return
    (name,) = usual
    spec: Json = {"managedBy": name}
    where = {"spec": {"runPolicy": spec}} if "runPolicy" in about else {"spec": spec}
    job = msgspec.convert(where, adapter.object_type)
    assert adapter.foreign_manager(job) == ""
    spec["managedBy"] = "other"
    assert adapter.foreign_manager(msgspec.convert(where, adapter.object_type)) == "other"


@pytest.mark.parametrize(
    "changed",
    [
        {"suspend": ".spec.lists[0].suspend"},
        {"suspend": ".status.suspend"},
        {"suspend": "$.spec['suspend']"},
        {"podSets": [{"name": "worker", "template": ".spec.groups[0].template"}]},
        {"podSets": [{"name": "a", "count": ".spec.a[0].b", "template": ".spec.template"}]},
    ],
    ids=json.dumps,
)
def test_a_kind_with_paths_through_lists_is_left_to_the_controllers(changed: Json) -> None:
    kinds = [{**WIDGET, **changed}]
    objects = render(values_with("batchjob", controllers={"config": {"kinds": kinds}}))
    rules = of_kind(objects, "MutatingAdmissionPolicy")["koord-queue-hold-jobs"]["spec"]
    assert "widgets" not in str(rules)
    assert f"widgets.example.com: {PATCHES}" in lines(rules_of(objects, *RULES))


def test_the_policy_ignores_pods_of_all_known_jobs() -> None:
    policy = of_kind(render(values_with(*GATED)), "MutatingAdmissionPolicy")
    said = policy["koord-queue-hold-pods"]["spec"]["matchConditions"]
    (listed,) = (each["expression"] for each in said if each["name"] == "not-of-a-job")
    pods = {"Pod", "PodGroup", "ReplicaSet", "Deployment", "StatefulSet", "LeaderWorkerSet"}
    assert set(re.findall(r"'(\w+)'", listed)) == KNOWN_JOB_KINDS - pods


@pytest.mark.parametrize("on", [True, False, None])
def test_the_policy_adds_the_label_of_the_gate_if_the_controllers_change_it(
    on: bool | None, tmp_path: Path
) -> None:
    given = {} if on is None else {"scheduleAdmissionLabel": on}
    values = values_with("pod", controllers={"config": given})
    path = tmp_path / "config.yaml"
    path.write_text(configurations(values)["controllers"])
    settings = settings_of("pod", parse_flags([]), load_configuration(str(path), {"pod"}))
    assert settings.schedule_admission_label is bool(on)
    policies = of_kind(render(values), "MutatingAdmissionPolicy")
    labelled = {name: SCHEDULE_ADMISSION in str(each) for name, each in policies.items()}
    holding = ("koord-queue-hold-pods", "koord-queue-hold-pods-of-namespaces")
    assert labelled == dict.fromkeys(holding, bool(on))


@pytest.mark.parametrize(
    ("said", "served", "want"),
    [
        ("auto", "", False),
        ("auto", "kueue.x-k8s.io/v1beta1/AdmissionCheck", False),
        ("auto", "kueue.x-k8s.io/v1beta1/Workload", True),
        ("auto", "kueue.x-k8s.io/v1beta2/Workload", True),
        (True, "", True),
        (False, "kueue.x-k8s.io/v1beta1/Workload", False),
    ],
)
def test_the_policies_leave_to_kueue_what_the_controllers_leave_to_it(
    said: str | bool, served: str, want: bool
) -> None:
    values = values_with("batchjob", "pod", controllers={"config": {"leaveToKueue": said}})
    objects = render(values, api_versions=(POLICY_V1, *([served] if served else [])))
    policies = of_kind(objects, "MutatingAdmissionPolicy")
    assert len(policies) == 4
    for policy in policies.values():
        names = [each["name"] for each in policy["spec"]["matchConditions"]]
        assert ("not-of-kueue" in names) is want
    assert yaml.safe_load(configurations(values)["controllers"])["leaveToKueue"] == said


# ------------------------------------------------- what the policy can read, the adapters can read


def _pattern(switch: str, mark: str) -> re.Pattern[str]:
    """Return the first regular expression after a mark in the policy of a kind."""
    said = [one["expression"] for one in holding_policy(values_with(switch))["matchConditions"]]
    (about,) = (one for one in said if mark in one)
    found = re.search(r"matches\(r'(.*?)'\)", about.partition(mark)[2])
    assert found is not None
    # In RE2, which the API server uses, `$` matches only at the end of the text.
    return re.compile(found[1].removesuffix("$") + r"\Z", re.ASCII)


NAMES: Final = (
    *("cpu", "memory", "pods", "ephemeral-storage", "nvidia.com/gpu", "a/b", "1/2", "0x1/a"),
    *("", "yes", "null", "1", "~", "a b", "&a/b", "*a/b", "a/b: c/d", "- cpu", "x/y#z"),
)
AMOUNTS: Final = (
    *("1", "4", "8Gi", "500m", "1.5", "0.5", "10k", "999999999Ti", "1.250G"),
    *("", "0", "-1", "08", "0x10", "1_0", "1e3", "1:30", ".5", "yes", "[1]", "1 2", "Gi", "1gi"),
)
GLUE: Final = (": ", ":", " : ", ":  ", "\n", "\n\n", "\n ", ", ", ",", "{", "}", '"', "'", " ", "")
PARTS: Final = st.sampled_from((*NAMES, *AMOUNTS, *GLUE))


@st.composite
def needs(draw: st.DrawFn) -> str:
    """Draw what a user may write: lines, JSON, or neither."""
    if draw(st.booleans()):
        return "".join(draw(st.lists(PARTS, max_size=12)))
    # Valid ones are drawn more often, so that many texts are held.
    names_of = st.sampled_from(NAMES[:7]) | st.sampled_from(NAMES)
    amounts_of = st.sampled_from(AMOUNTS[:9]) | st.sampled_from(AMOUNTS)
    quote, names, amounts = draw(st.sampled_from(("", '"'))), draw(names_of), draw(amounts_of)
    line = st.tuples(names_of, amounts_of)
    lines_ = [(names, amounts), *draw(st.lists(line, max_size=3))]
    if quote:
        return "{" + ", ".join(f'"{name}": "{amount}"' for name, amount in lines_) + "}"
    return "\n".join(f"{name}: {amount}" for name, amount in lines_)


def test_a_workflow_is_held_only_if_its_needs_can_be_read() -> None:
    pattern = _pattern("argo", "text.size()")
    held: set[str] = set()

    @given(needs())
    def check(text: str) -> None:
        if pattern.search(text):
            held.add(text)
            assert read_resources(text.strip())[1] == ""

    check()
    assert len(held) > 1, "some texts are held"


@pytest.mark.parametrize(
    "text",
    [
        "cpu: 4",
        "cpu: 4\nmemory: 8Gi\n",
        'cpu: "500m"\nnvidia.com/gpu: 1',
        '{"cpu": "2", "memory": "4Gi"}',
        '{ "nvidia.com/gpu" : "1" }',
    ],
)
def test_common_formats_on_workflows_are_read(text: str) -> None:
    assert _pattern("argo", "text.size()").search(text)


@pytest.mark.parametrize(
    ("mark", "spec"),
    [
        ("role.?memoryOverhead", "driver.memory"),
        ("memoryOverheadFactor", "memoryOverheadFactor"),
        ("'spark.memory.offHeap.size']", "sparkConf.spark.executor.memory"),
        ("'spark.kubernetes.memoryOverheadFactor']", "sparkConf.spark.driver.memoryOverheadFactor"),
        ("'spark.dynamicAllocation.minExecutors']", "sparkConf.spark.executor.instances"),
    ],
)
def test_a_spark_application_is_held_only_if_its_sizes_can_be_read(mark: str, spec: str) -> None:
    field, _, inner = spec.partition(".")

    @given(st.from_regex(_pattern("spark", mark)))
    def check(text: str) -> None:
        body = {"spec": {field: {inner: text} if inner else text}}
        assert (
            SparkApplicationAdapter().why_not_suspendable(msgspec.convert(body, SparkApplication))
            == ""
        )

    check()


def test_the_policy_checks_every_setting_of_spark_that_is_read() -> None:
    said = str(holding_policy(values_with("spark"))["matchConditions"])
    for setting in (
        *(f"spark.{role}.{name}" for role in ("driver", "executor") for name in (
            "memory", "memoryOverhead", "minMemoryOverhead", "memoryOverheadFactor")),
        *("spark.executor.pyspark.memory", "spark.memory.offHeap.size"),
        *("spark.kubernetes.memoryOverheadFactor", "spark.executor.instances"),
        *("spark.dynamicAllocation.initialExecutors", "spark.dynamicAllocation.minExecutors"),
    ):  # fmt: skip
        on = ("spark.dynamicAllocation.enabled", "spark.memory.offHeap.enabled")
        body = {
            "spec": {"type": "Python", "sparkConf": {**dict.fromkeys(on, "true"), setting: "?"}}
        }
        job = msgspec.convert(body, SparkApplication)
        assert setting in SparkApplicationAdapter().why_not_suspendable(job)
        assert f"'{setting}'" in said
