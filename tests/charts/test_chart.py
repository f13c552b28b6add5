"""What the chart renders with any values, and the effect of single values."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from msgspec.structs import replace

from koord_queue.checks.facts import COMPONENT, Right, containers_of
from koord_queue.checks.rights import rights_of_program
from koord_queue.cli.check import check
from queue_controllers import configuration as controllers_configuration
from queue_insight.api_registration.api_service import NAME as API_SERVICE
from queue_insight.forecast.no_forecast import LEAST_RUNS
from queue_insight.insight_program.flags import InsightFlags, parse_insight_flags
from queue_insight.scheduler_additions import InsightAddition
from queue_scheduler import configuration as scheduler_configuration
from queue_scheduler.framework.handle import Handle
from queue_scheduler.setup.plugin_loading import BUILT_IN, Switches, build_plugins
from shared_api.admission_check_kit.serving import parse_check_flags
from shared_api.crds import DEFINITIONS
from shared_api.durations import parse_seconds
from tests.charts.render import (
    CHART,
    GUARD_V1,
    NAMESPACE,
    POLICY_V1,
    POLICY_V1BETA1,
    Program,
    StrictLoader,
    of_kind,
    render,
    rights,
    run_helm,
)
from tests.charts.values_table import (
    ADDRESS,
    ALL_KNOBS,
    MARKED,
    NAMED,
    SPREAD,
    UPSTREAM,
    VALUES,
)
from tests.controlplane.helm import require_helm_3
from tests.queue_scheduler.all_flags import parse_all_flags

ROOT = CHART.parents[1]
CLUSTER_WIDE = {
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}

MONITORING = {"PrometheusRule", "ServiceMonitor"}

CHECKS = "admission-checks"
INSIGHT = "insight"
VISIBLE: Json = {"insight": {"enabled": True, "visibility": {"enabled": True}}}
READER_BINDING = ("RoleBinding", "some-where-koord-queue-visibility")
PROBES = {CHECKS: ("checks-health", 8082), INSIGHT: ("insight-health", 8084)}
"""Name and number of the health port of each container that is not a pod's first."""

Json = Any

every_values = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())


def deployments(values: Json = None) -> dict[str, Json]:
    """Return the Deployments by component: "scheduler", "controllers"."""
    found = of_kind(render(values), "Deployment").values()
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one for one in found}


def pods(values: Json = None) -> dict[str, Json]:
    """Return the pod templates by component."""
    return {name: one["spec"]["template"] for name, one in deployments(values).items()}


def containers(values: Json = None) -> dict[str, Json]:
    """Return the containers of all pods: the first by the pod's component, sidecars by name."""
    found: dict[str, Json] = {}
    for name, pod in pods(values).items():
        first, *sidecars = pod["spec"]["containers"]
        assert first["name"] == name
        found |= {name: first, **{one["name"]: one for one in sidecars}}
    return found


def pod_of(container: str) -> str:
    """Return the component of the pod in which a container runs."""
    return "scheduler" if container in PROBES else container


def configurations(values: Json = None) -> dict[str, str]:
    """Return the text of each program's mounted configuration file, by component."""
    maps = of_kind(render(values), "ConfigMap")
    found = {}
    for name, pod in pods(values).items():
        volumes = {one["name"]: one for one in pod["spec"]["volumes"]}
        found[name] = maps[volumes["config"]["configMap"]["name"]]["data"]["config.yaml"]
    return found


# ---------------------------------------------------------------------- with any values


def test_helm_lint_has_no_findings() -> None:
    assert "0 chart(s) failed" in run_helm("lint", "--strict", str(CHART))


@every_values
def test_each_object_has_a_unique_name_and_the_namespace_of_the_release(values: Json) -> None:
    objects = render(values, namespace="some-where")
    seen = [(one["kind"], one["metadata"]["name"]) for one in objects]
    assert sorted(set(seen)) == sorted(seen)
    for one in objects:
        got = one["metadata"].get("namespace")
        want = None if one["kind"] in CLUSTER_WIDE else "some-where"
        if one["metadata"]["name"].endswith("-node-blacklist"):
            want = "ops"  # the right to read existing pods
        if (one["kind"], one["metadata"]["name"]) == READER_BINDING:
            want = "kube-system"
        if one["kind"] in MONITORING or "-dashboard-" in one["metadata"]["name"]:
            want = "monitoring"
        assert got == want, one["metadata"]


@every_values
def test_each_object_has_the_labels_of_the_release(values: Json) -> None:
    for one in render(values, release="night"):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "night"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["app.kubernetes.io/version"] == version()
        assert labels["helm.sh/chart"] == f"koord-queue-{version()}"


@every_values
def test_selectors_match_their_pods(values: Json) -> None:
    objects = render(values)
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(values).items()}
    for one in objects:
        component = one["metadata"]["labels"]["app.kubernetes.io/component"]
        selector = _selector_of(one)
        if selector is None:
            continue
        assert "app.kubernetes.io/version" not in selector, "it changes, selectors cannot"
        found = [name for name, own in labels.items() if selector.items() <= own.items()]
        assert found == [pod_of(component)], one["metadata"]["name"]


def _selector_of(one: Json) -> Json:
    """Return the labels by which an object selects pods; None if it selects none."""
    match one["kind"]:
        case "Deployment" | "PodDisruptionBudget":
            return one["spec"]["selector"]["matchLabels"]
        case "NetworkPolicy":
            return one["spec"]["podSelector"]["matchLabels"]
        case "Service":
            return one["spec"]["selector"]
        case _:
            return None


@every_values
def test_services_and_probes_name_existing_ports(values: Json) -> None:
    ports = {
        name: {port["name"]: port["containerPort"] for port in one["ports"]}
        for name, one in containers(values).items()
    }
    scraped = set()
    for service in of_kind(render(values), "Service").values():
        component = service["metadata"]["labels"]["app.kubernetes.io/component"]
        for port in service["spec"]["ports"]:
            assert ports[component][port["targetPort"]] == port["port"]
            scraped |= {component} if port["name"] == "metrics" else set()
    assert scraped == ports.keys()
    for name, one in containers(values).items():
        health, number = PROBES.get(name, ("health", 8081))
        assert one["livenessProbe"]["httpGet"] == {"path": "/livez", "port": health}
        assert one["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": health}
        assert ports[name][health] == number


@every_values
def test_containers_of_a_pod_do_not_conflict(values: Json) -> None:
    for pod in pods(values).values():
        of_pod = [port for one in pod["spec"]["containers"] for port in one["ports"]]
        for key in ("name", "containerPort"):
            assert len({port[key] for port in of_pod}) == len(of_pod)
            assert all(len(port["name"]) <= 15 for port in of_pod), "the API's limit"


@every_values
def test_pods_follow_the_restricted_profile(values: Json) -> None:
    # The profile of the Pod Security Standards; tests/cluster checks it with a real server.
    for name, pod in pods(values).items():
        spec = pod["spec"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"].get("runAsUser") != 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert all(
            {"configMap", "emptyDir", "persistentVolumeClaim", "secret"} & volume.keys()
            for volume in spec["volumes"]
        )
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }


TLS = {"tmp", "metrics-tls"}
ALL = TLS | {"config", "debug-tls", "insight-sockets", "insight-record"}
OWN = (ALL | {"shadow-record"}) - {"insight-record"}
MOUNTED = {CHECKS: TLS, INSIGHT: TLS | {"insight-sockets", "insight-record", "page-tls"}}


@every_values
def test_every_mount_has_a_volume_and_every_file_a_mount(values: Json) -> None:
    for name, one in containers(values).items():
        volumes = {each["name"] for each in pods(values)[pod_of(name)]["spec"]["volumes"]}
        mounts = {mount["mountPath"]: mount["name"] for mount in one["volumeMounts"]}
        assert set(mounts.values()) == volumes & MOUNTED.get(name, OWN)
        files, folders = (
            re.findall(pattern, "\n".join(one["args"]), re.MULTILINE)
            for pattern in (r"=(/\S+)/\w+\.\w+$", r"-dir=(/\S+)$")
        )
        assert {*files, *folders} == mounts.keys() - {"/tmp"}


@every_values
def test_the_programs_accept_their_arguments(values: Json) -> None:
    for name, one in containers(values).items():
        assert one["command"] == [f"koord-queue-{name}"]
        flags = _parse(name, one["args"])
        if name == INSIGHT:
            assert flags.process.health_address == ":8084"
            continue
        if name != CHECKS:
            assert flags.config == "/etc/koord-queue/config.yaml"
            assert flags.queue_namespace == NAMESPACE
        assert flags.program.health_address == (":8082" if name == CHECKS else ":8081")
        assert flags.program.lease_namespace == NAMESPACE
        replicas = deployments(values)[pod_of(name)]["spec"]["replicas"]
        assert flags.program.leader_elect or replicas == 1


def read_insight_flags(args: list[str]) -> InsightFlags:
    """Return the flags of insight; the folders are there only in a pod."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "is_dir", lambda _: True)
        return parse_insight_flags(args)


def _parse(name: str, args: list[str]) -> Json:
    if name == "scheduler":
        return parse_all_flags(args)
    if name == CHECKS:
        return parse_check_flags(args, f"koord-queue-{CHECKS}", "a.b/c")
    if name == INSIGHT:
        return read_insight_flags(args)
    return controllers_configuration.parse_flags(args)


@every_values
def test_the_programs_accept_their_configuration(values: Json, tmp_path: Path) -> None:
    for name, text in configurations(values).items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        if name == "controllers":
            controllers_configuration.load_configuration(str(path), {"job"})
            continue
        configuration = scheduler_configuration.load_configuration(str(path))
        flags = _parse(name, containers(values)[name]["args"])
        switches = Switches(oversell_rate=flags.oversell_rate)
        no_handle = cast("Handle", None)  # no built-in plugin uses it
        assert build_plugins(_without_others(configuration), switches, no_handle)


def _without_others(
    configuration: scheduler_configuration.KoordQueueConfiguration,
) -> scheduler_configuration.KoordQueueConfiguration:
    """Return the built-in plugins; those of others are not installed here."""
    ours = tuple(each for each in configuration.plugins if each.name in BUILT_IN)
    arguments = {n: each for n, each in configuration.plugin_configs.items() if n in BUILT_IN}
    return replace(configuration, plugins=ours, plugin_configs=arguments)


# --------------------------------------------------------------------------- single values


def test_a_program_with_the_defaults_listens_on_upstreams_ports() -> None:
    scheduler, controllers = (
        _parse(n, containers()[n]["args"]) for n in ("scheduler", "controllers")
    )
    assert scheduler.program.metrics_address == ":10259"
    assert controllers.program.metrics_address == ":8080"
    assert scheduler.debug.address == "127.0.0.1:19876"
    assert controllers.debug.address == "127.0.0.1:19877"
    assert controllers.enabled_extensions == ("job",)


def test_values_reach_the_programs() -> None:
    values = {
        "qps": 50,
        "burst": 2_000_000,
        "oversellrate": 1.25,
        "pluginConfigs": {"pluginConfigs": {"ElasticQuotaV2": {"mode": "max"}}},
        "controllers": {"qps": 0.5, "burst": 7},
        "metrics": {"secure": False},
        "leaderElection": {"leaseDurationSeconds": 30, "renewDeadlineSeconds": 20},
        "log": {"level": "debug"},
    }
    scheduler = _parse("scheduler", containers(values)["scheduler"]["args"])
    controllers = _parse("controllers", containers(values)["controllers"]["args"])
    assert (scheduler.program.qps, scheduler.program.burst) == (50, 2_000_000)
    assert (controllers.program.qps, controllers.program.burst) == (0.5, 7)
    assert scheduler.oversell_rate.as_integer_ratio() == (5, 4)
    for flags in (scheduler, controllers):
        assert flags.program.metrics_secure is False
        assert (flags.program.lease_seconds, flags.program.renew_deadline_seconds) == (30, 20)
        assert flags.program.log_level == "debug"
    assert scheduler.program.lease_name != controllers.program.lease_name


@pytest.mark.parametrize(
    ("scheduler", "want"),
    [({}, True), ({"auditRepair": True}, True), ({"auditRepair": False}, False)],
)
def test_whether_the_self_audit_repairs(scheduler: Json, want: bool) -> None:
    arguments = containers({"scheduler": scheduler})["scheduler"]["args"]
    assert parse_all_flags(arguments).audit_repairs is want


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({}, "koord-queue:{version}", id="what `make image` builds"),
        pytest.param({"image": {"tag": "x"}}, "koord-queue:x", id="a tag"),
        pytest.param(
            {"image": {"digest": "sha256:" + "a" * 64, "tag": "x"}},
            "koord-queue@sha256:" + "a" * 64,
            id="a digest takes precedence",
        ),
        pytest.param(
            {"global": {"imagePrefix": "r.test/p/"}, "image": {"repository": "q"}},
            "r.test/p/q:{version}",
            id="a registry",
        ),
        pytest.param(
            {"controller": {"image": {"repository": "o", "tag": "t"}}}, "o:t", id="upstream's names"
        ),
    ],
)
def test_both_programs_come_from_one_image(values: Json, want: str) -> None:
    images = {one["image"] for one in containers(values).values()}
    assert images == {want.format(version=version())}


def test_upstreams_resources_are_those_of_the_same_program() -> None:
    resources = {name: one["resources"] for name, one in containers(UPSTREAM).items()}
    assert resources["scheduler"] == UPSTREAM["controller"]["resources"]
    newest = UPSTREAM["extension"]["koord-queue-controllers"]["resources"]
    assert resources["controllers"] == newest
    older = {"extension": {"jobextensions": {"resources": {"limits": {"memory": "3Gi"}}}}}
    assert containers(older)["controllers"]["resources"] == {"limits": {"memory": "3Gi"}}


def test_every_setting_of_a_pod_is_rendered() -> None:
    values = VALUES["all settings of the pods"]
    for name, deployment in deployments(values).items():
        pod = deployment["spec"]["template"]
        assert deployment["spec"]["replicas"] == 2
        assert pod["metadata"]["annotations"]["example.com/a"] == "b"
        assert pod["metadata"]["labels"]["example.com/team"] == "c"
        for key in ("imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"):
            assert pod["spec"][key] == values[key]
        for key in ("affinity", "topologySpreadConstraints"):
            assert pod["spec"][key] == ALL_KNOBS[key]
        container = containers(values)[name]
        assert container["env"] == ALL_KNOBS["extraEnv"]
        assert container["args"][-1] == "--writers=4"
        assert container["imagePullPolicy"] == "Always"
    budgets = of_kind(render(values), "PodDisruptionBudget").values()
    assert [one["spec"]["maxUnavailable"] for one in budgets] == ["50%", "50%"]
    accounts = of_kind(render(values), "ServiceAccount")
    del accounts["koord-queue-test"]
    assert {one["metadata"]["annotations"]["example.com/role"] for one in accounts.values()} == {
        "d"
    }


def test_a_spread_without_a_selector_counts_the_pods_of_its_deployment() -> None:
    bare = {key: said for key, said in SPREAD.items() if key != "labelSelector"}
    both = {"topologySpreadConstraints": [bare, SPREAD]}
    for pod in pods({"scheduler": both, "controllers": both}).values():
        own, given = pod["spec"]["topologySpreadConstraints"]
        assert given == SPREAD
        selector = own.pop("labelSelector")["matchLabels"]
        assert own == bare
        labels = pod["metadata"]["labels"]
        assert selector.items() <= labels.items()
        assert selector["app.kubernetes.io/component"] == labels["app.kubernetes.io/component"]


def test_common_labels_and_annotations_are_added_to_every_object_and_pod() -> None:
    values = VALUES["labels and annotations of a company"]
    plain = {key: said for key, said in values.items() if key not in MARKED}
    objects = [*zip(render(values), render(plain), strict=True)]
    templates = [*zip(pods(values).values(), pods(plain).values(), strict=True)]
    for marked, bare in [*objects, *templates]:
        for key, common in (("labels", "commonLabels"), ("annotations", "commonAnnotations")):
            own = bare["metadata"].get(key, {})
            assert marked["metadata"][key] == {**MARKED[common], **own}, marked["metadata"]
    for marked, bare in objects:
        assert _selector_of(marked) == _selector_of(bare), "selectors cannot change"


def test_every_template_has_metadata_from_the_place_that_adds_them() -> None:
    from_there = re.compile(r'  \{\{- include "koord-queue\.(metadata|testMetadata|userRole)"')
    for path in (CHART / "templates").rglob("*.*"):
        for metadata in path.read_text().split("\nmetadata:\n")[1:]:
            assert from_there.match(metadata), path.name


def test_extra_objects_are_templates() -> None:
    text = 'metadata: {name: {{ include "koord-queue.fullname" . }}-low}\nkind: PriorityClass\n'
    theirs = {
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "{{ .Release.Namespace }}"},
    }
    objects = render({"extraObjects": [theirs, text], **MARKED}, namespace="ours")
    assert of_kind(objects, "ConfigMap")["x"]["metadata"] == {"name": "x", "namespace": "ours"}
    assert of_kind(objects, "PriorityClass").keys() == {"koord-queue-low"}


def test_helm_test_runs_a_check_that_the_command_line_understands() -> None:
    pod = of_kind(render(namespace="batch"), "Pod")["koord-queue-test"]
    (container,) = pod["spec"]["containers"]
    assert container["command"] == ["koord-queue"]
    name, *arguments = container["args"]
    with check.make_context(name, list(arguments)) as context:
        got = context.params
    assert got["system_namespace"] == got["namespace"] == "batch"
    assert got["skipped"] == (
        "alone",
        "koordinator",
        "rights",
        "objects",
        "record",
        "units",
        "pods",
    )
    assert parse_seconds(got["wait"]) >= 60


def test_helm_test_fails_where_it_may_not_look_though_it_has_the_rights() -> None:
    for creates in (True, False):
        pod = of_kind(render({"rbac": {"create": creates}}), "Pod")["koord-queue-test"]
        (container,) = pod["spec"]["containers"]
        assert ("--strict" in container["args"]) == creates


def test_the_rights_that_check_asks_for_are_those_that_the_programs_have() -> None:
    objects = render()
    programs: tuple[Program, ...] = ("scheduler", "controllers")
    for program in programs:
        (deployment,) = (
            one
            for one in of_kind(objects, "Deployment").values()
            if one["metadata"]["labels"][COMPONENT] == program
        )
        needed = rights_of_program(program, containers_of(deployment)[0], NAMESPACE)
        rules = [rule for one in rights(program, user="ann") for rule in one.get("rules", ())]
        assert needed
        for each in needed:
            assert any(_grants(rule, each.right) for rule in rules), str(each.right)


def _grants(rule: Json, right: Right) -> bool:
    what = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
    return (
        right.verb in rule["verbs"]
        and right.group in rule.get("apiGroups", ())
        and what in rule.get("resources", ())
        and right.name in ("", *rule.get("resourceNames", ()))
    )


def test_the_check_controller_is_rendered_on_request_with_its_own_settings() -> None:
    assert CHECKS not in containers()
    asked = VALUES["nodes are requested"]["admissionCheckController"]
    container = containers(VALUES["nodes are requested"])[CHECKS]
    flags = _parse(CHECKS, container["args"])
    assert flags.controller_name == asked["controllerName"]
    assert (flags.program.qps, flags.program.burst) == (asked["qps"], asked["burst"])
    assert flags.workers == 2, "of extraArgs"
    assert flags.program.metrics_address == ":8083"
    assert flags.program.lease_name == "koord-queue-admission-checks"
    assert container["env"] == asked["extraEnv"]
    assert container["resources"]["limits"] == asked["resources"]["limits"]
    assert container["image"] == containers()["scheduler"]["image"]


def test_insight_is_rendered_on_request_with_its_own_settings() -> None:
    assert INSIGHT not in containers()
    assert "--insight" not in " ".join(containers()["scheduler"]["args"])
    values = VALUES["insight, on a volume that exists"]
    container, asked = containers(values)[INSIGHT], values["insight"]
    flags = _parse(INSIGHT, container["args"])
    scheduler = _parse("scheduler", containers(values)["scheduler"]["args"])
    assert flags.socket_folder == InsightAddition().read_flags(scheduler).folder
    assert flags.process.metrics_address == ":8085"
    assert flags.process.log_level == "debug", "of extraArgs"
    assert container["env"] == asked["extraEnv"]
    assert container["resources"]["limits"] == asked["resources"]["limits"]
    assert container["image"] == containers()["scheduler"]["image"]


@pytest.mark.parametrize(("values", "want"), [({}, LEAST_RUNS), ({"leastRuns": 0}, 0)])
def test_from_how_many_runs_on_times_are_told(values: Json, want: int) -> None:
    given = {"insight": {"enabled": True, "forecast": values}}
    assert read_insight_flags(containers(given)[INSIGHT]["args"]).least_runs == want


def test_the_aggregated_api_is_reached_through_its_service() -> None:
    objects = render(VISIBLE)
    insight = containers(VISIBLE)[INSIGHT]
    flags = read_insight_flags(insight["args"]).visibility
    assert flags is not None
    service = of_kind(objects, "Service")[flags.service.name]
    assert service["metadata"]["namespace"] == flags.service.namespace
    sticky = [
        name
        for name, each in of_kind(objects, "Service").items()
        if each["spec"].get("sessionAffinity") == "ClientIP"
    ]
    assert sticky == [flags.service.name], "one replica keeps the pages of a list"
    assert [port["port"] for port in service["spec"]["ports"]] == [flags.service.port]
    ports = {port["name"]: port["containerPort"] for port in insight["ports"]}
    assert flags.address == f":{ports[service['spec']['ports'][0]['targetPort']]}"
    api_service = of_kind(objects, "APIService")[API_SERVICE]
    assert "service" not in api_service["spec"], "nobody answers yet"
    assert "caBundle" not in api_service["spec"]
    scheduler = _parse("scheduler", containers(VISIBLE)["scheduler"]["args"])
    assert InsightAddition().read_flags(scheduler).withdraw_seconds == 30


def test_the_page_is_reached_through_its_service_only_if_exposed() -> None:
    own = {"insight": {"enabled": True, "page": {"enabled": True, "hosts": ["desk"]}}}
    flags = read_insight_flags(containers(own)[INSIGHT]["args"]).page
    assert flags is not None
    assert (flags.address, flags.hosts, flags.tls_certificate) == ("127.0.0.1:8087", ("desk",), "")
    assert flags.dashboards == ""
    assert not [name for name in of_kind(render(own), "Service") if name.endswith("-page")]
    values = VALUES["the page, exposed"]
    insight = containers(values)[INSIGHT]
    flags = read_insight_flags(insight["args"]).page
    assert flags is not None
    assert (flags.address, flags.hosts) == (":8087", ("queue.example",))
    assert flags.dashboards == "https://grafana.example.com/d/koord-queue?var-cluster=a"
    assert [str(each) for each in flags.trusted_proxies] == ["10.0.0.0/8", "fd00::7/128"]
    folder = flags.tls_certificate.removesuffix("/tls.crt")
    assert flags.tls_key == f"{folder}/tls.key"
    assert folder in {each["mountPath"] for each in insight["volumeMounts"]}
    (service,) = (one for name, one in of_kind(render(values), "Service").items()
                  if name.endswith("-page"))  # fmt: skip
    assert service["spec"]["sessionAffinity"] == "ClientIP", "one replica keeps a session"
    ports = {port["name"]: port["containerPort"] for port in insight["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == 8087
    policies = of_kind(render(values), "NetworkPolicy").values()
    assert "insight-page" in str(list(policies))


def test_without_the_page_there_is_nothing_of_it() -> None:
    insight = containers({"insight": {"enabled": True}})[INSIGHT]
    assert read_insight_flags(insight["args"]).page is None


def test_without_the_aggregated_api_there_is_nothing_of_it() -> None:
    # `helm test` looks for one that was left behind.
    objects = [
        one
        for one in render({"insight": {"enabled": True}})
        if one["metadata"]["name"] != "koord-queue-test"
    ]
    assert not of_kind(objects, "APIService")
    assert "visibility" not in str(objects)


@pytest.mark.parametrize(
    ("values", "volume", "strategy"),
    [
        ({}, {"emptyDir": {"sizeLimit": "2Gi"}}, "RollingUpdate"),
        ({"sizeLimit": "7Gi"}, {"emptyDir": {"sizeLimit": "7Gi"}}, "RollingUpdate"),
        (
            {"existingClaim": "mine"},
            {"persistentVolumeClaim": {"claimName": "mine"}},
            "Recreate",
        ),
    ],
    ids=["a folder of the pod", "a larger one", "a claim has one writer at a time"],
)
def test_where_the_record_is_kept(values: Json, volume: Json, strategy: str) -> None:
    given = {"insight": {"enabled": True, "record": values}}
    volumes = {one["name"]: one for one in pods(given)["scheduler"]["spec"]["volumes"]}
    assert volumes["insight-record"] == {"name": "insight-record", **volume}
    assert volumes["insight-sockets"]["emptyDir"] == {"sizeLimit": "1Mi"}
    limit = f"--record-limit={values.get('sizeLimit', '2Gi')}"
    assert limit in containers(given)[INSIGHT]["args"], "it keeps below what it may fill"
    assert deployments(given)["scheduler"]["spec"]["strategy"]["type"] == strategy
    assert deployments(given)["controllers"]["spec"]["strategy"]["type"] == "RollingUpdate"


def test_labels_of_users_cannot_hide_a_pod_from_its_deployment() -> None:
    taken = {"app.kubernetes.io/component": "mine", "example.com/x": "y"}
    labels = pods({"scheduler": {"podLabels": taken}})["scheduler"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "scheduler"
    assert labels["example.com/x"] == "y"


@pytest.mark.parametrize(
    ("values", "moved"),
    [
        ({"pluginConfigs": {"defaultReclaimProtectTime": "5m"}}, {"scheduler"}),
        ({"controllers": {"config": {"job": {"runningTimeout": "10m"}}}}, {"controllers"}),
        ({"metrics": {"serviceMonitor": {"enabled": True}}}, set()),
    ],
)
def test_a_new_configuration_rolls_the_pods_that_read_it(values: Json, moved: set[str]) -> None:
    before, after = pods(), pods(values)
    assert {name for name in before if before[name] != after[name]} == moved
    for name in moved:
        assert before[name]["spec"] == after[name]["spec"], "only the checksum changes"


def test_without_election_the_old_pod_ends_before_the_new_one_starts() -> None:
    strategies = [one["spec"]["strategy"]["type"] for one in deployments().values()]
    assert strategies == ["RollingUpdate", "RollingUpdate"]
    alone = deployments({"leaderElection": {"enabled": False}}).values()
    assert [one["spec"]["strategy"]["type"] for one in alone] == ["Recreate", "Recreate"]


def test_an_exposed_debug_api_has_tls_and_a_service() -> None:
    values = VALUES["all endpoints exposed"]
    flags = _parse("scheduler", containers(values)["scheduler"]["args"])
    assert flags.debug.address == ":19876"
    assert flags.debug.tls_certificate == "/etc/koord-queue-debug-tls/tls.crt"
    assert flags.debug.tls_key == "/etc/koord-queue-debug-tls/tls.key"
    assert "koord-queue-debug" in of_kind(render(values), "Service")
    assert "koord-queue-debug" not in of_kind(render(), "Service")


def test_the_controllers_debug_api_is_exposed_separately() -> None:
    only = {"controllers": {"debugApi": EXPOSED}}
    flags = _parse("controllers", containers(only)["controllers"]["args"])
    assert flags.debug.address == ":19877"
    assert flags.debug.tls_certificate == "/etc/koord-queue-debug-tls/tls.crt"
    services = of_kind(render(only), "Service")
    assert services["koord-queue-controllers-debug"]["spec"]["ports"][0]["port"] == 19877
    assert "koord-queue-debug" not in services
    assert "koord-queue-controllers-debug" not in of_kind(render({"debugApi": EXPOSED}), "Service")
    apart = _parse("scheduler", containers(only)["scheduler"]["args"])
    assert apart.debug.address == "127.0.0.1:19876"


@pytest.mark.parametrize(
    ("program", "at"), [("scheduler", "debugApi"), ("controllers", "controllers.debugApi")]
)
def test_names_of_the_plain_debug_api_are_used_if_it_is_not_exposed(program: str, at: str) -> None:
    def flags(settings: Json) -> Any:
        values = {"debugApi": settings}
        values = values if at == "debugApi" else {"controllers": values}
        return _parse(program, containers(values)[program]["args"])

    hosts = ["queue.example.com", "other"]
    assert flags({"hosts": hosts}).debug.hosts == tuple(hosts)
    assert not flags({"hosts": hosts, **EXPOSED}).debug.hosts


EXPOSED = {"expose": True, "tls": {"secretName": "s"}}


def _tcp(*ports: int) -> list[Json]:
    return [{"port": port, "protocol": "TCP"} for port in ports]


OPS = [{"namespaceSelector": {"matchLabels": {"team": "ops"}}}]
ANYONE: Json = [{"namespaceSelector": {}}]


@pytest.mark.parametrize(
    ("values", "scheduler"),
    [
        pytest.param({}, {"health": None, "metrics": ANYONE}, id="metrics: every pod"),
        pytest.param(
            {"networkPolicy": {"enabled": True, "metricsFrom": OPS}},
            {"health": None, "metrics": OPS},
            id="metrics: those named",
        ),
        pytest.param(
            {"networkPolicy": {"enabled": True, "metricsFrom": []}},
            {"health": None},
            id="metrics: no source",
        ),
        pytest.param(
            {"networkPolicy": {"enabled": True, "debugFrom": OPS}, "debugApi": EXPOSED},
            {"health": None, "metrics": ANYONE, "debug": OPS},
            id="the exposed debug API: those named",
        ),
        pytest.param(
            {"admissionCheckController": {"enabled": True}},
            {
                "health": None,
                "checks-health": None,
                "metrics": ANYONE,
                "checks-metrics": ANYONE,
            },
            id="the check controller's too",
        ),
        pytest.param(
            {"insight": {"enabled": True}},
            {
                "health": None,
                "insight-health": None,
                "metrics": ANYONE,
                "insight-metrics": ANYONE,
            },
            id="those of insight too",
        ),
        pytest.param(
            VISIBLE,
            {
                "health": None,
                "insight-health": None,
                "insight-api": None,
                "metrics": ANYONE,
                "insight-metrics": ANYONE,
            },
            id="the aggregated API: from everywhere",
        ),
        pytest.param(
            VALUES["the page, exposed"],
            {
                "health": None,
                "insight-health": None,
                "metrics": [NAMED],
                "insight-metrics": [NAMED],
                "insight-page": [NAMED],
            },
            id="the exposed page: those named",
        ),
        pytest.param(
            {**VISIBLE, "networkPolicy": {"enabled": True, "apiServer": {"from": [ADDRESS]}}},
            {
                "health": None,
                "insight-health": None,
                "insight-api": [ADDRESS],
                "metrics": ANYONE,
                "insight-metrics": ANYONE,
            },
            id="the aggregated API: from the API server, if its address is known",
        ),
    ],
)
def test_a_network_policy_limits_metrics_and_debug_and_never_probes(
    values: Json, scheduler: Json
) -> None:
    given = {"networkPolicy": {"enabled": True}, **values}
    policies = of_kind(render(given), "NetworkPolicy")
    assert _sources(policies["koord-queue"]) == scheduler
    assert _sources(policies["koord-queue-controllers"])["health"] is None
    deployments = of_kind(render(given), "Deployment")
    for name, policy in policies.items():
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        template = deployments[name]["spec"]["template"]
        wanted = policy["spec"]["podSelector"]["matchLabels"]
        assert wanted.items() <= template["metadata"]["labels"].items()
        served = {port["name"] for each in template["spec"]["containers"] for port in each["ports"]}
        assert _sources(policy).keys() <= served
    assert not of_kind(render(), "NetworkPolicy")


TO_DNS = [{"port": port, "protocol": each} for port in (53, 5353) for each in ("UDP", "TCP")]


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param(
            {"networkPolicy": {"enabled": True}},
            [{"ports": _tcp(443, 6443)}, {"ports": TO_DNS}],
            id="the usual ports",
        ),
        pytest.param(
            VALUES["the page, exposed"],
            [
                {"ports": _tcp(7443), "to": [ADDRESS]},
                {"ports": TO_DNS, "to": [NAMED]},
                {"ports": [{"port": 3128}], "to": [ADDRESS]},
            ],
            id="those named, and a proxy",
        ),
        pytest.param(
            {"networkPolicy": {"enabled": True, "limitEgress": False}}, None, id="not limited"
        ),
    ],
)
def test_programs_connect_to_the_api_server_and_dns_only(values: Json, want: Json) -> None:
    policies = of_kind(render(values), "NetworkPolicy").values()
    assert len(policies) == 2
    for policy in policies:
        assert policy["spec"].get("egress") == want
        assert ("Egress" in policy["spec"]["policyTypes"]) == (want is not None)


def test_a_network_policy_limits_the_controllers_debug_api_by_the_same_value() -> None:
    limited = {"networkPolicy": {"enabled": True, "debugFrom": OPS}}
    given = {**limited, "controllers": {"debugApi": EXPOSED}}
    policies = of_kind(render(given), "NetworkPolicy")
    assert _sources(policies["koord-queue-controllers"])["debug"] == OPS
    assert "debug" not in _sources(policies["koord-queue"])
    policies = of_kind(render(limited), "NetworkPolicy")
    assert "debug" not in _sources(policies["koord-queue-controllers"])


def _sources(policy: Json) -> Json:
    """Return which sources may reach which port; None for all."""
    return {
        port["port"]: rule.get("from")
        for rule in policy["spec"]["ingress"]
        for port in rule["ports"]
    }


def test_a_scrape_has_what_the_programs_require() -> None:
    def endpoint(**metrics: Json) -> Json:
        values = {"metrics": {"serviceMonitor": {"enabled": True}, **metrics}}
        (one,) = of_kind(render(values), "ServiceMonitor").values()
        (only,) = one["spec"]["endpoints"]
        return only

    assert "bearerTokenFile" in endpoint()
    assert "bearerTokenFile" not in endpoint(secure=False)
    assert endpoint()["scheme"] == "http"
    assert endpoint(tls={"secretName": "s"})["scheme"] == "https"
    own = {"enabled": True, "authorization": {"credentials": {"name": "n", "key": "k"}}}
    assert endpoint(serviceMonitor=own)["authorization"] == own["authorization"]
    assert "bearerTokenFile" not in endpoint(serviceMonitor=own)
    assert not of_kind(render(), "ServiceMonitor")


def test_without_any_extension_there_are_no_controllers() -> None:
    objects = render(VALUES["only the scheduler"])
    names = {one["metadata"]["name"] for one in objects if one["kind"] != "ClusterRole"}
    assert [name for name in names if "controllers" in name or "hold-jobs" in name] == []


@pytest.mark.parametrize(
    ("enabled", "served", "want"),
    [
        pytest.param("auto", [POLICY_V1, POLICY_V1BETA1], "v1", id="the stable one first"),
        pytest.param("auto", [POLICY_V1BETA1], "v1beta1", id="the version of an older cluster"),
        pytest.param("auto", [], None, id="a cluster that serves none"),
        pytest.param(True, [], "v1", id="requested without access to a cluster"),
        pytest.param(False, [POLICY_V1], None, id="not wanted"),
    ],
)
def test_the_admission_policy_is_rendered_if_it_is_served(
    enabled: Json, served: list[str], want: str | None
) -> None:
    objects = render({"admissionPolicy": {"enabled": enabled}}, api_versions=served)
    versions = [
        one["apiVersion"] for one in objects if one["kind"].startswith("MutatingAdmissionPolicy")
    ]
    assert versions == ([f"admissionregistration.k8s.io/{want}"] * 5 if want else [])


@pytest.mark.parametrize(
    ("values", "served", "kube_version", "want"),
    [
        pytest.param({}, [GUARD_V1], "1.30.0", True, id="the first version that serves it"),
        pytest.param({}, [GUARD_V1], "1.29.9", False, id="an older cluster"),
        pytest.param({}, [], "1.36.3", False, id="a cluster that serves none"),
        pytest.param(
            {"admissionPolicy": {"guardRelease": True}}, [], "1.29.9", True, id="asked for"
        ),
        pytest.param(
            {"admissionPolicy": {"guardRelease": False}}, [GUARD_V1], "1.36.3", False, id="refused"
        ),
        pytest.param(
            {"admissionPolicy": {"enabled": False, "guardRelease": True}},
            [GUARD_V1],
            "1.36.3",
            False,
            id="without policies",
        ),
        pytest.param(
            {"rbac": {"create": False}}, [GUARD_V1], "1.36.3", False, id="roles of one's own"
        ),
        pytest.param(
            {"rbac": {"create": False}, "admissionPolicy": {"guardRelease": True}},
            [GUARD_V1],
            "1.36.3",
            True,
            id="roles of one's own that have the verb",
        ),
    ],
)
def test_releases_are_guarded_if_the_server_and_the_roles_support_it(
    values: Json, served: list[str], kube_version: str, want: bool
) -> None:
    objects = render(values, api_versions=served, kube_version=kube_version)
    guards = [one for one in objects if one["kind"].startswith("ValidatingAdmissionPolicy")]
    assert bool(guards) is want
    assert all("release-pods" not in one["metadata"]["name"] for one in guards), "no kind has gates"


FROM_TWO = {"admissionPolicy": {"quotasFrom": ["kube-system", "quotas"]}}


@pytest.mark.parametrize(
    ("values", "checks", "guards"),
    [
        pytest.param({}, False, 0, id="open"),
        pytest.param(FROM_TWO, False, 0, id="open, with any list"),
        pytest.param({"quotaNamespaces": "listed"}, True, 0, id="listed, only by the scheduler"),
        pytest.param(
            {"quotaNamespaces": "listed", **FROM_TWO}, True, 6, id="listed, at admission too"
        ),
        pytest.param(
            {"pluginConfigs": {"quotaNamespaces": "listed"}, **FROM_TWO},
            True,
            6,
            id="by the scheduler's file",
        ),
        pytest.param(
            {
                "quotaNamespaces": "listed",
                "admissionPolicy": {"quotasFrom": ["quotas"], "enabled": False},
            },
            True,
            0,
            id="no policies at all are wanted",
        ),
    ],
)
def test_which_namespaces_may_name_a_quota(values: Json, checks: bool, guards: int) -> None:
    objects = render(values)
    for program in ("scheduler", "controllers"):
        args = containers(values)[program]["args"]
        assert ("--quota-namespaces=listed" in args) is checks, program
    bindings = of_kind(objects, "ValidatingAdmissionPolicyBinding").values()
    of_quotas = [one for one in bindings if one["spec"]["policyName"].endswith("name-quotas")]
    assert len(of_quotas) == guards, "each namespace of quotas, for each label"
    older = render(values, api_versions=[], kube_version="1.29.0")
    assert "koord-queue-name-quotas" not in of_kind(older, "ValidatingAdmissionPolicy")


@pytest.mark.parametrize(
    ("plugins", "want"),
    [
        pytest.param(["ElasticQuotaV2"], {"quotas"}, id="ElasticQuotas"),
        pytest.param(
            ["ElasticQuota"], {"nodes"}, id="a tree: the CRD of other kinds may be missing"
        ),
        pytest.param(["ElasticQuota", "ElasticQuotaV2"], {"nodes", "quotas"}, id="both"),
        pytest.param(["ResourceQuota"], set(), id="none that other namespaces can name"),
    ],
)
def test_each_kind_of_quota_is_guarded_if_its_plugin_runs(
    plugins: list[str], want: set[str]
) -> None:
    listed = [{"name": name} for name in plugins]
    values = {"quotaNamespaces": "listed", **FROM_TWO, "pluginConfigs": {"plugins": listed}}
    policies = of_kind(render(values), "ValidatingAdmissionPolicy")
    prefix = "koord-queue-name-"
    got = {name.removeprefix(prefix) for name in policies if name.startswith(prefix)}
    assert got == want


# ---------------------------------------------------------------------------- CRDs, Chart.yaml


def test_the_crds_in_the_chart_are_the_generated_ones() -> None:
    for definition in DEFINITIONS:
        name = f"{definition.plural}.yaml"
        copied = (CHART / "files" / "crds" / name).read_bytes()
        assert copied == (ROOT / "crds" / name).read_bytes(), "run `make crds`"


def test_they_are_rendered_unchanged_and_outlive_the_release() -> None:
    rendered = of_kind(render(), "CustomResourceDefinition")
    for definition in DEFINITIONS:
        want = definition.body()
        got = rendered.pop(want["metadata"]["name"])
        assert got["spec"] == want["spec"]
        assert got["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert rendered == {}
    left_to_helm = of_kind(render({"crds": {"keep": False}}), "CustomResourceDefinition")
    assert not any("annotations" in one["metadata"] for one in left_to_helm.values())
    assert not of_kind(render({"crds": {"enabled": False}}), "CustomResourceDefinition")


@every_values
def test_helm_3_renders_the_same(values: Json) -> None:
    assert render(values, helm=require_helm_3) == render(values)


def chart_yaml() -> Json:
    return yaml.load((CHART / "Chart.yaml").read_text(), Loader=StrictLoader)  # noqa: S506 - a SafeLoader


def version() -> str:
    """Return the version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    number: str = project["version"]
    return number


def test_chart_program_and_package_have_one_version() -> None:
    assert chart_yaml()["version"] == chart_yaml()["appVersion"] == version()
    images = yaml.safe_load(chart_yaml()["annotations"]["artifacthub.io/images"])
    assert [one["image"] for one in images] == [f"koord-queue:{version()}"]


def test_the_catalog_lists_every_crd() -> None:
    listed = yaml.safe_load(chart_yaml()["annotations"]["artifacthub.io/crds"])
    got = {(one["name"], one["kind"], one["version"]) for one in listed}
    assert got == set(_crd_names())
    changes = yaml.safe_load(chart_yaml()["annotations"]["artifacthub.io/changes"])
    assert all(one.keys() == {"kind", "description"} for one in changes)


def _crd_names() -> Iterator[tuple[str, str, str]]:
    for definition in DEFINITIONS:
        body = definition.body()
        (served,) = body["spec"]["versions"]
        yield body["metadata"]["name"], definition.kind, served["name"]


def test_a_cluster_that_is_too_old_is_refused() -> None:
    assert chart_yaml()["kubeVersion"] == ">=1.29.0-0"
    render(kube_version="1.29.0")
