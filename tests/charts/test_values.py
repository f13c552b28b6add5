"""Typos and impossible values fail with a reason, and values without effect are named."""

from __future__ import annotations

from typing import Any

import pytest

from shared_api.leader_election import LeaseSettingError, LeaseSettings
from tests.charts.render import CHART, HelmFailed, render, render_notes, run_helm
from tests.charts.values_table import UPSTREAM, WIDGET, values_with

Json = Any

UNHELD = {name: said for name, said in WIDGET.items() if name != "suspend"}


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"schedular": {}}, "'schedular' not allowed"),
        ({"scheduler": {"replica": 2}}, "'replica' not allowed"),
        ({"scheduler": {"resources": {"request": {}}}}, "'request' not allowed"),
        ({"scheduler": {"replicas": "2"}}, "/scheduler/replicas"),
        ({"scheduler": {"replicas": -1}}, "/scheduler/replicas"),
        ({"controllers": {"extraEnv": [{"nam": "x"}]}}, "/controllers/extraEnv/0"),
        ({"controllers": {"podDisruptionBudget": {"maxUnavailable": "half"}}}, "maxUnavailable"),
        ({"tolerations": [{"keys": "x"}]}, "'keys' not allowed"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"extension": {"batchJob": {"enable": True}}}, "'batchJob' not allowed"),
        ({"extension": {"tf": {"enabled": True}}}, "'enabled' not allowed"),
        ({"admissionPolicy": {"enabled": "yes"}}, "/admissionPolicy/enabled"),
        ({"oversellrate": 0}, "/oversellrate"),
        ({"pluginConfigs": {"plugin": []}}, "'plugin' not allowed"),
        (
            {"pluginConfigs": {"pluginConfigs": {"ElasticQuotaV2": {"modes": "max"}}}},
            "'modes' not allowed",
        ),
        ({"controllers": {"config": {"manage": "everything"}}}, "/controllers/config/manage"),
        ({"controllers": {"config": {"job": {"runTimeout": 1}}}}, "'runTimeout' not allowed"),
        *(
            ({"controllers": {"config": {"job": {name: value}}}}, f"/controllers/config/job/{name}")
            for name, value in (
                ("runningTimeout", "soon"),
                ("runningTimeout", -1),
                ("backoffTimeout", "5 m"),
                ("backoffLimit", -1),
                ("backoffLimit", "3"),
                ("partialRunningTimeout", "5 s"),
                ("podCreationTimeout", "never"),
            )
        ),
        *(({"oversellrate": value}, "/oversellrate") for value in ("0", "0.00", "-1", "much", ".")),
        *(({"qps": value}, "/qps") for value in (-1, "-1", "nan", "1e3")),
        ({"pluginConfigs": {"kind": "Deployment"}}, "/pluginConfigs/kind"),
        ({"pluginConfigs": {"apiVersion": "v1"}}, "/pluginConfigs/apiVersion"),
        ({"pluginConfigs": {"plugins": [{"name": "Priority"}] * 2}}, "/pluginConfigs/plugins"),
        (
            {"pluginConfigs": {"defaultReclaimProtectTime": "soon"}},
            "/pluginConfigs/defaultReclaimProtectTime",
        ),
        *(
            (
                {"pluginConfigs": {"pluginConfigs": {"ElasticQuotaV2": {name: value}}}},
                f"/pluginConfigs/pluginConfigs/ElasticQuotaV2/{name}",
            )
            for name, value in (
                ("koordinatorVersion", "newest"),
                ("expectedCapacity", {"cpu": "many"}),
                ("requiredRequests", "cpu"),
            )
        ),
        ({"metrics": {"serviceMonitor": {"interval": "30 s"}}}, "/metrics/serviceMonitor/interval"),
        ({"podSecurityContext": "none"}, "/podSecurityContext"),
        ({"admissionCheckController": {"enable": True}}, "'enable' not allowed"),
        (
            {"admissionCheckController": {"controllerName": "nodes"}},
            "/admissionCheckController/controllerName",
        ),
    ],
)
def test_a_typo_fails(values: Json, where: str) -> None:
    with pytest.raises(HelmFailed, match="specifications of the schema") as refused:
        render(values)
    assert where in str(refused.value)


def test_a_link_of_the_page_is_of_http_or_https() -> None:
    values = {"insight": {"page": {"dashboards": "javascript:alert(1)"}}}
    with pytest.raises(HelmFailed, match="/insight/page/dashboards"):
        render(values)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"quotaNamespaces": "some"}, "/quotaNamespaces"),
        ({"pluginConfigs": {"quotaNamespaces": "some"}}, "/pluginConfigs/quotaNamespaces"),
        ({"admissionPolicy": {"guardRelease": "yes"}}, "/admissionPolicy/guardRelease"),
        ({"admissionPolicy": {"users": "auto"}}, "/admissionPolicy/users"),
        ({"admissionPolicy": {"quotasFrom": ["Not_One"]}}, "/admissionPolicy/quotasFrom/0"),
        ({"scheduler": {"auditRepair": "no"}}, "/scheduler/auditRepair"),
        (
            {"networkPolicy": {"apiServer": {"ports": ["https"]}}},
            "/networkPolicy/apiServer/ports/0",
        ),
        ({"extraObjects": [1]}, "/extraObjects/0"),
        *(
            ({"commonLabels": {key: "true"}}, f"propertyName '{key}'")
            for key in (
                "rbac.authorization.k8s.io/aggregate-to-edit",
                "app.kubernetes.io/name",
                "helm.sh/chart",
            )
        ),
        *(
            ({"commonAnnotations": {key: "test"}}, f"propertyName '{key}'")
            for key in ("helm.sh/hook", "meta.helm.sh/release-name")
        ),
    ],
)
def test_further_values_are_checked(values: Json, where: str) -> None:
    test_a_typo_fails(values, where)


def test_numbers_that_helm_passes_as_texts_are_numbers() -> None:
    mode = "pluginConfigs.pluginConfigs.ElasticQuotaV2.mode=max"
    given = f"oversellrate=0.5,qps=2.5,controllers.qps=7.5,{mode}"
    text = run_helm("template", "x", str(CHART), "--set", given)
    for argument in ("--oversellrate=0.5", "--kube-api-qps=2.5", "--kube-api-qps=7.5"):
        assert f"- {argument}\n" in text


@pytest.mark.parametrize("lease", [4, 5, 8, 17])
@pytest.mark.parametrize(("renew", "retry"), [(2, 1), (6, 5), (7, 5), (15, 12), (5, 5)])
def test_an_election_that_cannot_work_fails_as_in_the_programs(
    lease: int, renew: int, retry: int
) -> None:
    values = {"leaseDurationSeconds": lease, "renewDeadlineSeconds": renew}
    values["retryPeriodSeconds"] = retry
    try:
        LeaseSettings(lease_seconds=lease, renew_deadline_seconds=renew, retry_seconds=retry)
    except LeaseSettingError:
        with pytest.raises(HelmFailed, match="leaderElection: "):
            render({"leaderElection": values})
    else:
        render({"leaderElection": values})


def test_a_chart_that_depends_on_this_one_may_set_global_values() -> None:
    render({"global": {"imagePrefix": "r", "storageClass": "fast"}, "enabled": True})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"isNeedNotebookExtension": True}, "does not have notebook jobs"),
        (
            {"controller": {"enableVisibilityServer": True}},
            "does not have the aggregated visibility API",
        ),
        (
            {"leaderElection": {"enabled": False}, "scheduler": {"replicas": 2}},
            "scheduler.replicas above 1 needs leaderElection.enabled",
        ),
        (
            {"leaderElection": {"enabled": False}, "controllers": {"replicas": 2}},
            "controllers.replicas above 1 needs leaderElection.enabled",
        ),
        (
            {
                "insight": {"enabled": True, "record": {"existingClaim": "one"}},
                "scheduler": {"replicas": 2},
            },
            "insight.record.existingClaim needs scheduler.replicas of 1",
        ),
        (
            {"insight": {"visibility": {"enabled": True}}},
            "insight.visibility.enabled needs insight.enabled",
        ),
        (
            {"insight": {"page": {"enabled": True}}},
            "insight.page.enabled needs insight.enabled",
        ),
        (
            {"insight": {"enabled": True, "page": {"enabled": True, "expose": True}}},
            "insight.page.expose needs insight.page.tls.secretName",
        ),
        (
            {"leaderElection": {"renewDeadlineSeconds": 15}},
            "must be greater than renewDeadlineSeconds",
        ),
        (
            {"leaderElection": {"retryPeriodSeconds": 10}},
            "greater than 1.2 times retryPeriodSeconds",
        ),
        (
            {
                "leaderElection": {
                    "leaseDurationSeconds": 4,
                    "renewDeadlineSeconds": 2,
                    "retryPeriodSeconds": 1,
                }
            },
            "at least retryPeriodSeconds plus 4 seconds for a write",
        ),
        *(
            (values, f"{host} only stands for a registry in the documentation")
            for host, values in (
                ("registry.example.com", {"global": {"imagePrefix": "registry.example.com"}}),
                ("example.org:5000", {"global": {"imagePrefix": "example.org:5000/team/"}}),
                ("r.example.net", {"image": {"repository": "r.example.net/koord-queue"}}),
                (
                    "example.com",
                    {"shadow": {"enabled": True}, "global": {"imagePrefix": "example.com"}},
                ),
            )
        ),
        ({"debugApi": {"expose": True}}, "debugApi.expose needs debugApi.tls.secretName"),
        (
            {"controllers": {"debugApi": {"expose": True}}},
            "controllers.debugApi.expose needs controllers.debugApi.tls.secretName",
        ),
        ({"oversellrate": 1.5}, "oversellrate: a rate other than 1 needs the quota mode max"),
        (
            {"pluginConfigs": {"pluginConfigs": {"ElasticQuota": {"checkQuotaOversold": True}}}},
            "pluginConfigs.pluginConfigs.ElasticQuota: no such plugin",
        ),
        (
            {"admissionPolicy": {"enabled": True}, "extension": {"batchjob": {"enable": False}}},
            "jobs that the policy suspends would never be released",
        ),
        (
            {
                "admissionPolicy": {"enabled": True},
                "extension": {"batchjob": {"enable": False}},
                "controllers": {"config": {"kinds": [UNHELD]}},
            },
            "jobs that the policy suspends would never be released",
        ),
    ],
)
def test_a_value_that_cannot_be_honored_fails(values: Json, message: str) -> None:
    with pytest.raises(HelmFailed) as refused:
        render(values)
    assert message in str(refused.value)


# ---------------------------------------------------------------------------------- notes

TITLE = "NOT IN EFFECT"


def not_in_effect(notes: str) -> list[str]:
    """Return the lines of the list at the end of the notes."""
    _, _, listed = notes.partition(TITLE)
    return [line.removeprefix("  - ") for line in listed.splitlines()[1:]]


def test_a_default_installation_has_no_values_without_effect() -> None:
    assert TITLE not in render_notes()


@pytest.mark.parametrize("key", ["repository", "tag"])
def test_an_image_of_upstream_causes_a_warning(key: str) -> None:
    warning = "CAUTION: controller.image"
    assert warning in render_notes({"controller": {"image": {key: "v1.8.0"}}})
    assert warning not in render_notes()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"installation": {"namespace": "batch"}}, "installation.namespace=batch"),
        ({"controller": {"queueGroupPlugin": "elasticquota"}}, "controller.queueGroupPlugin="),
        ({"controller": {"enableBlockingMode": True}}, "controller.enableBlockingMode"),
        ({"controller": {"enableStrictPriority": True}}, "controller.enableStrictPriority"),
        ({"controller": {"defaultPreemptible": False}}, "controller.defaultPreemptible"),
        ({"jobRunningTimeout": "5m"}, "jobRunningTimeout=5m: set controllers.config.job"),
        ({"jobBackoffTime": 30}, "jobBackoffTime=30: set controllers.config.job.backoffTimeout"),
        ({"admissionCheckController": {"image": {"tag": "x"}}}, "admissionCheckController.image"),
        ({"extension": {"jobextensions": {"tag": "x"}}}, "extension.jobextensions"),
        (
            {"extension": {"koord-queue-controllers": {"repository": "x"}}},
            "extension.koord-queue-controllers",
        ),
    ],
)
def test_values_without_effect_are_named(values: Json, named: str) -> None:
    (line,) = not_in_effect(render_notes(values))
    assert line.startswith(named)
    assert render(values) == render(), "the value has no effect"


def test_upstreams_own_values_cause_only_relevant_notes() -> None:
    named = [line.split(":")[0] for line in not_in_effect(render_notes(UPSTREAM))]
    assert named == [
        "extension.koord-queue-controllers.repository and tag",
        "extension.jobextensions.repository and tag",
        "admissionCheckController.image.repository and tag",
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "port-forward deployment/koord-queue 19876:19876"),
        ({}, "this cluster serves no MutatingAdmissionPolicy"),
        ({}, "metrics.tls.secretName is not set"),
        ({"admissionPolicy": {"enabled": True}}, "suspended at their creation"),
        ({"admissionPolicy": {"enabled": False}}, "admissionPolicy.enabled is false"),
        ({}, "(Kubernetes 1.30): the controllers suspend it again"),
        ({"admissionPolicy": {"enabled": True, "guardRelease": True}}, "may `release` queueunits"),
        ({"admissionPolicy": {"guardRelease": False}}, "admissionPolicy.guardRelease is false"),
        ({}, "Any namespace may name any quota (quotaNamespaces: open)"),
        (
            {"quotaNamespaces": "listed"},
            "list the namespaces of your quotas in admissionPolicy.quotasFrom",
        ),
        (
            {"quotaNamespaces": "listed", "admissionPolicy": {"quotasFrom": ["q"]}},
            "This does not restrict bare pods",
        ),
        ({"admissionPolicy": {"users": True}}, "so jobs do not get the\nname of who creates them"),
        ({"admissionPolicy": {"users": True}, "rbac": {"create": False}}, "controllers that\nverb"),
        ({"extension": {"batchjob": {"enable": False}}}, "none: no extension is enabled"),
        (values_with("ray"), "RayJob (ray.io/v1), with shutdownAfterJobFinishes"),
        (values_with("spark"), "held only if they are created suspended, since this cluster"),
        (
            {"debugApi": {"expose": True, "tls": {"secretName": "s"}}},
            "Service koord-queue-debug.koord-queue, port 19876, https",
        ),
        ({}, "port-forward deployment/koord-queue-controllers 19877:19877"),
        (
            {"controllers": {"debugApi": {"expose": True, "tls": {"secretName": "s"}}}},
            "Service koord-queue-controllers-debug.koord-queue, port 19877, https",
        ),
        ({"crds": {"keep": False}}, "deletes all queues and units"),
        ({"crds": {"enabled": False}}, "The CRDs are not part of this release"),
        ({"rbac": {"create": False}}, "No roles were created"),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, "with its release as a label"),
    ],
)
def test_notes_have_the_next_steps(values: Json, said: str) -> None:
    assert said in render_notes(values)


INSIGHT = {"enabled": True, "page": {"enabled": True}, "visibility": {"enabled": True}}


@pytest.mark.parametrize(
    ("plugins", "said"),
    [
        pytest.param(
            ["Priority", "ElasticQuotaV2"],
            ["ElasticQuotas (plugin ElasticQuotaV2), which this cluster does not serve"],
            id="ElasticQuotas",
        ),
        pytest.param(
            ["ElasticQuota", "ResourceQuota"],
            ["ElasticQuotaTrees (plugin ElasticQuota), which", "ResourceQuotas (plugin Resource"],
            id="others, in the order of their plugins",
        ),
        pytest.param(["Priority"], ["none: pluginConfigs.plugins names no plugin"], id="none"),
    ],
)
def test_notes_say_which_quotas_are_read(plugins: list[str], said: list[str]) -> None:
    values = {"pluginConfigs": {"plugins": [{"name": each} for each in plugins]}}
    _, _, rest = render_notes(values).partition("Quotas that units are compared with:\n")
    listed = [line for line in rest.partition("\n\n")[0].splitlines() if "- " in line]
    assert [line[: len(want) + 4] for line, want in zip(listed, said, strict=True)] == [
        f"  - {want}" for want in said
    ]


def test_notes_say_what_is_off_and_how_to_open_the_page() -> None:
    assert "Off in this release:\n  - insight.enabled: when a job starts" in render_notes()
    notes = render_notes({"insight": INSIGHT})
    assert "Off in this release:\n  - admissionCheckController.enabled" in notes
    assert "port-forward deployment/koord-queue 8087:8087\n  http://127.0.0.1:8087\n" in notes
    page = {"enabled": True, "expose": True, "tls": {"secretName": "s"}}
    notes = render_notes({"insight": INSIGHT | {"page": page}})
    assert "Service koord-queue-page.koord-queue, port 8087, https" in notes


def test_notes_describe_how_each_kind_is_held() -> None:
    kinds = {"config": {"kinds": [UNHELD]}}
    values = values_with("argo", "spark", controllers=kinds, admissionPolicy={"enabled": True})
    notes = render_notes(values).partition("Debug API")[0]
    at_birth, _, later = notes.partition("right after their creation;")
    assert "Workflow (argoproj.io/v1alpha1), with the annotation" in at_birth
    assert "SparkApplication" in at_birth
    assert "SparkApplication that is not labeled" in at_birth
    assert "Widget (example.com/v1)" in later


def test_notes_omit_what_does_not_apply() -> None:
    assert "bearer token" not in render_notes({"metrics": {"secure": False}})
    secret = {"metrics": {"tls": {"secretName": "s"}}}
    assert "clear text" not in render_notes(secret)
    assert "not labeled" not in render_notes({"admissionPolicy": {"enabled": True}})
    assert "controllers-metrics" not in render_notes({"extension": {"batchjob": {"enable": False}}})
