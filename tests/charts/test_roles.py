"""The roles: exactly what each program's calls need, without wildcards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.charts.render import NAMESPACE, of_kind, render, rights, rules_of
from tests.charts.values_table import VALUES

Json = Any

REVIEWS = {
    "tokenreviews.authentication.k8s.io: create",
    "subjectaccessreviews.authorization.k8s.io: create",
}
READS = "get list watch"
OF_THE_API_SERVER = {"system:auth-delegator", "extension-apiserver-authentication-reader"}
"""Roles that are there in every cluster."""


WITHOUT_JOBS = {"extension": {"batchjob": {"enable": False}, "pytorch": {"enable": True}}}


def lines(rules: list[Json]) -> set[str]:
    """Return a line for each resource of each rule: "pods: get list", "leases.g[name]: patch"."""
    return set(_lines(rules))


def _lines(rules: list[Json]) -> Iterator[str]:
    for rule in rules:
        verbs = " ".join(sorted(rule["verbs"]))
        for url in rule.get("nonResourceURLs", ()):
            yield f"{url}: {verbs}"
        names = "".join(f"[{name}]" for name in rule.get("resourceNames", ()))
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                yield f"{resource}{'.' + group if group else ''}{names}: {verbs}"


def test_the_schedulers_rules() -> None:
    objects = render()
    assert lines(rules_of(objects, "ClusterRole", "koord-queue-scheduler")) == {
        f"queueunits.scheduling.x-k8s.io: {READS}",
        "queueunits/status.scheduling.x-k8s.io: patch",
        f"elasticquotas.scheduling.sigs.k8s.io: {READS}",
        f"admissionchecks.kueue.x-k8s.io: {READS}",
        f"namespaces: {READS}",
        f"nodes: {READS}",
        f"pods: {READS}",
        "events.events.k8s.io: create patch",
        *REVIEWS,
    }
    assert lines(rules_of(objects, "Role", "koord-queue-scheduler")) == {
        "queues.scheduling.x-k8s.io: create delete get list patch watch",
        "queues/status.scheduling.x-k8s.io: patch",
        f"quotapolicies.scheduling.x-k8s.io: {READS}",
        "quotapolicies/status.scheduling.x-k8s.io: patch",
        f"queuereservations.scheduling.x-k8s.io: {READS}",
        "queuereservations/status.scheduling.x-k8s.io: patch",
        "leases.coordination.k8s.io: create",
        "leases.coordination.k8s.io[koord-queue-scheduler]: get patch",
    }


def test_the_schedulers_rules_follow_its_plugins() -> None:
    names = ("Priority", "ElasticQuota", "ResourceQuota", "defaultgroup")
    plugins = [{"name": name} for name in names]
    objects = render({"pluginConfigs": {"plugins": plugins}, "oversellrate": 2})
    plain = lines(rules_of(render(), "ClusterRole", "koord-queue-scheduler"))
    assert lines(rules_of(objects, "ClusterRole", "koord-queue-scheduler")) - plain == {
        f"elasticquotatrees.scheduling.sigs.k8s.io: {READS}",
        f"resourcequotas: {READS}",
    }


def test_the_controllers_rules() -> None:
    objects = render()
    assert lines(rules_of(objects, "ClusterRole", "koord-queue-controllers")) == {
        "queueunits.scheduling.x-k8s.io: create delete get list patch release submit-for watch",
        "queueunits/status.scheduling.x-k8s.io: patch",
        f"elasticquotas.scheduling.sigs.k8s.io: {READS}",
        f"namespaces: {READS}",
        f"pods: {READS}",
        "limitranges: list watch",
        "serviceaccounts: list watch",
        "runtimeclasses.node.k8s.io: list watch",
        f"priorityclasses.scheduling.k8s.io: {READS}",
        "jobs.batch: get list patch watch",
        "cronjobs.batch: get",
        "jobsets.jobset.x-k8s.io: get",
        "mpijobs.kubeflow.org: get",
        "rayjobs.ray.io: get",
        "rayclusters.ray.io: get",
        "appwrappers.workload.codeflare.dev: get",
        "events.events.k8s.io: create patch",
        "events: list",
        *REVIEWS,
    }
    assert lines(rules_of(objects, "Role", "koord-queue-controllers")) == {
        "leases.coordination.k8s.io: create",
        "leases.coordination.k8s.io[koord-queue-controllers]: get patch",
    }


@pytest.mark.parametrize(
    ("version", "values", "want"),
    [
        pytest.param("1.35.4", {}, {"jobs/status.batch: patch"}, id="before"),
        pytest.param("1.36.0-eks-1", {}, set(), id="since"),
        pytest.param("1.35.4", WITHOUT_JOBS, set(), id="without jobs"),
    ],
)
def test_start_times_of_jobs_are_cleared_before_1_36(
    version: str, values: Json, want: set[str]
) -> None:
    objects = render(values, kube_version=version)
    rules = lines(rules_of(objects, "ClusterRole", "koord-queue-controllers"))
    assert {each for each in rules if "jobs/status" in each} == want


def test_the_controllers_rules_follow_the_declared_kinds() -> None:
    test = {"path": ".status.phase", "values": ["x"]}
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "plural": "widgets",
        "podSets": [{"name": "worker", "template": ".spec.template"}],
        "succeeded": test,
        "failed": test,
    }
    objects = render({"controllers": {"config": {"kinds": [widget]}}})
    plain = lines(rules_of(render(), "ClusterRole", "koord-queue-controllers"))
    assert lines(rules_of(objects, "ClusterRole", "koord-queue-controllers")) - plain == {
        "widgets.example.com: get list patch watch"
    }


def test_the_check_controllers_rules() -> None:
    objects = render({"admissionCheckController": {"enabled": True}})
    name = "koord-queue-admission-checks"
    assert lines(rules_of(objects, "ClusterRole", name)) == {
        f"queueunits.scheduling.x-k8s.io: {READS}",
        "queueunits/status.scheduling.x-k8s.io: patch",
        "admissionchecks.kueue.x-k8s.io: list watch",
        "admissionchecks/status.kueue.x-k8s.io: patch",
        "provisioningrequestconfigs.kueue.x-k8s.io: list watch",
        "provisioningrequests.autoscaling.x-k8s.io: create delete list watch",
        "podtemplates: create delete list patch watch",
        "events.events.k8s.io: create patch",
        *REVIEWS,
    }
    assert lines(rules_of(objects, "Role", name)) == {
        "leases.coordination.k8s.io: create",
        "leases.coordination.k8s.io[koord-queue-admission-checks]: get patch",
    }
    bound = of_kind(objects, "ClusterRoleBinding")[name]["subjects"]
    assert [each["name"] for each in bound] == ["koord-queue"], "the account of the pod"
    assert name not in of_kind(render(), "ClusterRole")


def test_the_rules_of_helm_test_let_it_look_and_nothing_more() -> None:
    objects, name = render(), "koord-queue-test"
    assert lines(rules_of(objects, "Role", name)) == {
        "deployments.apps: list",
        "leases.coordination.k8s.io: list",
        "configmaps: list",
        "queues.scheduling.x-k8s.io: list",
        "quotapolicies.scheduling.x-k8s.io: list",
        "queuereservations.scheduling.x-k8s.io: list",
    }
    plurals = ("queues", "queueunits", "quotapolicies", "queuereservations")
    crds = "".join(f"[{plural}.scheduling.x-k8s.io]" for plural in plurals)
    kinds = "customresourcedefinitions.apiextensions.k8s.io"
    admission = "admissionregistration.k8s.io"
    assert lines(rules_of(objects, "ClusterRole", name)) == {
        f"{kinds}{crds}: get",
        "apiservices.apiregistration.k8s.io[v1alpha1.visibility.koord-queue]: get",
        *(f"{kind}admissionpolicies.{admission}: list" for kind in ("mutating", "validating")),
        *(
            f"{kind}admissionpolicybindings.{admission}: list"
            for kind in ("mutating", "validating")
        ),
        "elasticquotas.scheduling.sigs.k8s.io: list",
        "subjectaccessreviews.authorization.k8s.io: create",
    }


def test_the_rules_that_strict_queues_add() -> None:
    rules = ("ClusterRole", "koord-queue-controllers")
    blacklist = ("Role", "koord-queue-controllers-node-blacklist")
    strict = render({"strictDequeue": {"enabled": True}})
    added = lines(rules_of(strict, *rules)) - lines(rules_of(render(), *rules))
    assert added == {"reservations.scheduling.koordinator.sh: create delete get list watch"}
    assert lines(rules_of(strict, *blacklist)) == {"configmaps[kubedl-blacklist-data]: get"}
    assert of_kind(strict, "Role")[blacklist[1]]["metadata"]["namespace"] == "kube-system"
    assert blacklist[1] not in of_kind(render(), "Role")
    none = {"config": {"reservations": {"nodeBlacklist": ""}}}
    without = render({"strictDequeue": {"enabled": True}, "controllers": none})
    assert blacklist[1] not in of_kind(without, "Role")


def test_the_rules_for_users() -> None:
    objects = render()
    for plural, singular in (
        ("queues", "queue"),
        ("queueunits", "queueunit"),
        ("quotapolicies", "quotapolicy"),
        ("queuereservations", "queuereservation"),
    ):
        kind = f"{plural}.scheduling.x-k8s.io"
        role = f"koord-queue-{singular}"
        writes = "create delete get list patch update watch"
        all_writes = "create delete deletecollection get list patch update watch"
        assert lines(rules_of(objects, "ClusterRole", f"{role}-viewer")) == {f"{kind}: {READS}"}
        assert lines(rules_of(objects, "ClusterRole", f"{role}-editor")) == {f"{kind}: {writes}"}
        assert lines(rules_of(objects, "ClusterRole", f"{role}-admin")) == {f"{kind}: {all_writes}"}
    assert lines(rules_of(objects, "ClusterRole", "koord-queue-debug-reader")) == {
        "/: get",
        "/debug/*: get",
        "/debug/try: create",
        "/debug/what-if: create",
        "/openapi.json: get",
        "queueunits.scheduling.x-k8s.io: list",
    }
    assert lines(rules_of(objects, "ClusterRole", "koord-queue-metrics-reader")) == {
        "/metrics: get"
    }


def _visible(**changes: Json) -> Json:
    return {"insight": {"enabled": True, "visibility": {"enabled": True, **changes}}}


def test_the_rules_for_the_aggregated_api() -> None:
    objects = render(_visible())
    name = "koord-queue-visibility"
    group = "visibility.koord-queue"
    assert lines(rules_of(objects, "ClusterRole", name)) == {
        f"apiservices.apiregistration.k8s.io[v1alpha1.{group}]: create delete get patch"
    }
    bindings = of_kind(objects, "ClusterRoleBinding")
    assert bindings[f"{name}-auth-delegator"]["roleRef"]["name"] == "system:auth-delegator"
    reader = of_kind(objects, "RoleBinding")[f"koord-queue-{name}"]
    assert reader["metadata"]["namespace"] == "kube-system"
    assert reader["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    for bound in (bindings[name], bindings[f"{name}-auth-delegator"], reader):
        assert [each["name"] for each in bound["subjects"]] == ["koord-queue"]
    assert lines(rules_of(objects, "ClusterRole", f"{name}-viewer")) == {
        f"pendingunits.{group}: {READS}",
        f"pendingunits/explain.{group}: get",
        f"pendingunits/forecast.{group}: get",
    }
    assert lines(rules_of(objects, "ClusterRole", f"{name}-editor")) == {f"tries.{group}: create"}
    reads_queues = lines(rules_of(objects, "ClusterRole", f"{name}-queue-reader"))
    assert reads_queues == {f"queues/pendingunits.{group}: get"}


def test_view_shows_what_waits() -> None:
    label = "rbac.authorization.k8s.io/aggregate-to-{}"
    roles = of_kind(render(_visible()), "ClusterRole")
    for role, into in (("viewer", "view"), ("editor", "edit")):
        labels = roles[f"koord-queue-visibility-{role}"]["metadata"]["labels"]
        assert labels[label.format(into)] == "true"
    kept = of_kind(render({**_visible(), "rbac": {"aggregate": False}}), "ClusterRole")
    labels = kept["koord-queue-visibility-viewer"]["metadata"]["labels"]
    assert label.format("view") not in labels


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        ("readerRoleBinding", "RoleBinding", "koord-queue-koord-queue-visibility"),
        ("flowControl", "FlowSchema", "koord-queue-visibility"),
        ("flowControl", "PriorityLevelConfiguration", "koord-queue-visibility"),
    ],
)
def test_what_the_aggregated_api_can_do_without(change: str, kind: str, name: str) -> None:
    assert name in of_kind(render(_visible()), kind)
    assert name not in of_kind(render(_visible(**{change: False})), kind)


@pytest.mark.parametrize(
    ("values", "scheduler", "controllers"),
    [
        pytest.param({}, True, True, id="metrics require tokens"),
        pytest.param({"metrics": {"secure": False}}, False, False, id="no tokens required"),
        pytest.param(
            {
                "metrics": {"secure": False},
                "debugApi": {"expose": True, "tls": {"secretName": "s"}},
            },
            True,
            False,
            id="the debug API requires them",
        ),
        pytest.param(
            {
                "metrics": {"secure": False},
                "controllers": {"debugApi": {"expose": True, "tls": {"secretName": "s"}}},
            },
            False,
            True,
            id="the controllers' debug API requires them",
        ),
    ],
)
def test_only_programs_that_require_tokens_may_review_them(
    values: Json, scheduler: bool, controllers: bool
) -> None:
    objects = render(values)
    for name, want in (("scheduler", scheduler), ("controllers", controllers)):
        got = lines(rules_of(objects, "ClusterRole", f"koord-queue-{name}"))
        assert got & REVIEWS == (REVIEWS if want else set())


def test_without_election_there_is_no_lease_to_write() -> None:
    objects = render({"leaderElection": {"enabled": False}})
    assert "koord-queue-controllers" not in of_kind(objects, "Role")
    got = lines(rules_of(objects, "Role", "koord-queue-scheduler"))
    assert [line for line in got if "lease" in line] == []


def test_aggregation_names_the_cluster_role_of_the_same_scope() -> None:
    prefix = "rbac.authorization.k8s.io/aggregate-to-"

    def aggregated(values: Json = None) -> set[tuple[str, str]]:
        return {
            (name, label.removeprefix(prefix))
            for name, role in of_kind(render(values), "ClusterRole").items()
            for label in role["metadata"]["labels"]
            if label.startswith(prefix)
        }

    # And their writers into none.
    read_only = {
        (f"koord-queue-{kind}-viewer", "view") for kind in ("quotapolicy", "queuereservation")
    }
    everything = read_only | {
        (f"koord-queue-{kind}-{role}", into)
        for kind in ("queue", "queueunit")
        for role, into in (("viewer", "view"), ("editor", "edit"), ("admin", "admin"))
    }
    assert aggregated({"rbac": {"usersWriteUnits": True}}) == everything
    writes = {("koord-queue-queueunit-editor", "edit"), ("koord-queue-queueunit-admin", "admin")}
    assert aggregated() == everything - writes, "users read units, and write none"
    assert aggregated({"rbac": {"aggregate": False, "usersWriteUnits": True}}) == set()
    assert aggregated({"rbac": {"aggregate": False}}) == set()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_nothing_is_granted_by_wildcard(values: Json) -> None:
    for one in render(values):
        for rule in one.get("rules") or ():
            named = [*rule.get("apiGroups", ()), *rule.get("resources", ()), *rule["verbs"]]
            assert not [word for word in named if "*" in word], one["metadata"]["name"]
            urls = [url for url in rule.get("nonResourceURLs", ()) if "*" in url]
            assert urls in ([], ["/debug/*"]), one["metadata"]["name"]


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_each_binding_has_an_existing_role_and_an_account_in_use(values: Json) -> None:
    objects = render(values)
    accounts = {
        one["spec"]["template"]["spec"]["serviceAccountName"]
        for one in of_kind(objects, "Deployment").values()
    }
    # That of `helm test`.
    accounts |= {one["spec"]["serviceAccountName"] for one in of_kind(objects, "Pod").values()}
    bound = set()
    for kind, roles in (("ClusterRoleBinding", "ClusterRole"), ("RoleBinding", "Role")):
        for binding in of_kind(objects, kind).values():
            assert binding["roleRef"]["kind"] == roles
            role = binding["roleRef"]["name"]
            assert role in of_kind(objects, roles) or role in OF_THE_API_SERVER
            (subject,) = binding["subjects"]
            assert subject["kind"] == "ServiceAccount"
            assert subject["namespace"] == NAMESPACE
            bound.add(subject["name"])
    assert bound == (accounts if values.get("rbac", {}).get("create", True) else set())


def test_without_rbac_no_roles_are_created() -> None:
    kinds = {one["kind"] for one in render({"rbac": {"create": False}})}
    assert [kind for kind in kinds if "Role" in kind] == []


@pytest.mark.parametrize(("program", "other"), [("scheduler", "jobs"), ("controllers", "nodes")])
def test_rights_for_a_test_user_are_those_of_one_program(program: Any, other: str) -> None:
    objects = rights(program, user="ann")
    assert sorted(one["kind"] for one in objects) == [
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
    ]
    granted = {
        word for one in objects for rule in one.get("rules", ()) for word in rule["resources"]
    }
    assert "queueunits/status" in granted
    assert other not in granted
    users = {subject["name"] for one in objects for subject in one.get("subjects", ())}
    assert users == {"ann"}
