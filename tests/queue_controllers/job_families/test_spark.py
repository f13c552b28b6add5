"""The requests of drivers and executors."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.job_families.spark import (
    SparkSpec,
    SparkValueError,
    executor_count,
    least_executors,
    memory_mib,
    spark_pod_sets,
    template_of_role,
)
from shared_api.pod_requests import pod_requests

MIB = 2**20


def app(**spec: Any) -> SparkSpec:
    basic = {"type": "Scala", "sparkVersion": "4.0.0", "driver": {}, "executor": {}}
    return msgspec.convert({**basic, **spec}, SparkSpec)


def conf(**settings: str) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, 1408, id="no fields: 1g and 384 MiB"),
        pytest.param({"driver": {"memory": "512m"}}, 896, id="never less than 384 MiB more"),
        pytest.param({"driver": {"memory": "10g"}}, 11264, id="a tenth more"),
        pytest.param({"driver": {"memory": "10G"}}, 11264, id="whatever the case"),
        pytest.param({"driver": {"memory": "10gb"}}, 11264, id="with a b"),
        pytest.param({"driver": {"memory": "10240"}}, 11264, id="without a unit: MiB"),
        pytest.param({"driver": {"memory": "10485760k"}}, 11264, id="in KiB"),
        pytest.param({"type": "Python", "driver": {"memory": "10g"}}, 14336, id="Python"),
        pytest.param({"type": "R", "driver": {"memory": "10g"}}, 14336, id="R"),
        pytest.param({"driver": {"memory": "1g", "memoryOverhead": "100m"}}, 1124, id="explicit"),
        pytest.param({"driver": {"memory": "1g", "memoryOverhead": "1g"}}, 2048, id="explicit, 1g"),
        pytest.param(
            {"driver": {"memory": "10g"}, "memoryOverheadFactor": "0.25"}, 12800, id="the factor"
        ),
        pytest.param({"driver": {"memory": "1001m"}, "memoryOverheadFactor": "1"}, 2002, id="one"),
        pytest.param(
            {"driver": {"memory": "4097m"}, "memoryOverheadFactor": "0.1"}, 4506, id="cut off"
        ),
        pytest.param(
            {"sparkConf": conf(spark_driver_memory="2g")}, 2432, id="a setting without a field"
        ),
        pytest.param(
            {"driver": {"memory": "1g"}, "sparkConf": conf(spark_driver_memory="2g")},
            1408,
            id="the field wins",
        ),
        pytest.param(
            {"sparkConf": conf(spark_driver_memoryOverhead="500")}, 1524, id="overhead by setting"
        ),
        pytest.param(
            {
                "driver": {"memory": "10g"},
                "memoryOverheadFactor": "0.9",
                "sparkConf": conf(spark_kubernetes_memoryOverheadFactor="0.2"),
            },
            12288,
            id="the setting of the common factor wins",
        ),
        pytest.param(
            {
                "driver": {"memory": "10g"},
                "sparkConf": conf(
                    spark_driver_memoryOverheadFactor="0.3",
                    spark_kubernetes_memoryOverheadFactor="0.2",
                ),
            },
            13312,
            id="the role's own factor first",
        ),
        pytest.param(
            {"sparkConf": conf(spark_driver_minMemoryOverhead="1g")}, 2048, id="another least"
        ),
        pytest.param(
            {"type": "Python", "sparkConf": conf(spark_executor_pyspark_memory="1g")},
            1433,
            id="Python's memory is of executors",
        ),
    ],
)
def test_memory_of_a_driver(spec: dict[str, Any], want: int) -> None:
    assert memory_mib(app(**spec), "driver") == want


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, 1408, id="as the driver"),
        pytest.param(
            {"type": "Python", "sparkConf": conf(spark_executor_pyspark_memory="1g")},
            1024 + 409 + 1024,
            id="Python's memory",
        ),
        pytest.param(
            {"sparkConf": conf(spark_executor_pyspark_memory="1g")}, 1408, id="not of a JVM's"
        ),
        pytest.param(
            {
                "sparkConf": conf(
                    spark_memory_offHeap_enabled="true", spark_memory_offHeap_size="2147483648"
                )
            },
            1408 + 2048,
            id="off-heap memory, in bytes",
        ),
        pytest.param(
            {"sparkConf": conf(spark_memory_offHeap_size="2g")}, 1408, id="off-heap, but off"
        ),
    ],
)
def test_memory_of_an_executor(spec: dict[str, Any], want: int) -> None:
    assert memory_mib(app(**spec), "executor") == want


@pytest.mark.parametrize(
    ("of", "settings", "want"),
    [
        pytest.param({}, {}, "1", id="nothing said"),
        pytest.param({"cores": 3}, {}, "3", id="cores"),
        pytest.param({"cores": 3, "coreRequest": "500m"}, {}, "500m", id="the request first"),
        pytest.param({"coreLimit": "4"}, {}, "1", id="a limit is no request"),
        pytest.param({}, conf(spark_executor_cores="2"), "2", id="by setting"),
        pytest.param({"cores": 3}, conf(spark_executor_cores="2"), "3", id="the field wins"),
        pytest.param(
            {"cores": 3},
            conf(spark_kubernetes_executor_request_cores="250m"),
            "250m",
            id="a request by setting before cores",
        ),
    ],
)
def test_cpu(of: dict[str, Any], settings: dict[str, str], want: str) -> None:
    spec = app(executor=of, sparkConf=settings)
    assert template_of_role(spec, "executor").spec.containers[0].resources.requests["cpu"] == want


ON = "spark_dynamicAllocation_enabled"


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, (1, 1), id="no fields: one"),
        pytest.param({"executor": {"instances": 4}}, (4, 4), id="instances"),
        pytest.param({"sparkConf": conf(spark_executor_instances="3")}, (3, 3), id="by setting"),
        pytest.param(
            {"executor": {"instances": 4}, "dynamicAllocation": {"initialExecutors": 9}},
            (4, 4),
            id="dynamic, but off",
        ),
        pytest.param({"dynamicAllocation": {"enabled": True}}, (0, 0), id="dynamic: none at first"),
        pytest.param(
            {"dynamicAllocation": {"enabled": True, "initialExecutors": 5, "minExecutors": 2}},
            (5, 2),
            id="the initial number",
        ),
        pytest.param(
            {"dynamicAllocation": {"enabled": True, "initialExecutors": 1, "minExecutors": 2}},
            (2, 2),
            id="never under the least",
        ),
        pytest.param(
            {
                "executor": {"instances": 7},
                "dynamicAllocation": {"enabled": True, "initialExecutors": 5, "maxExecutors": 9},
            },
            (7, 0),
            id="the instances if they are more",
        ),
        pytest.param(
            {
                "sparkConf": conf(
                    **{ON: "true"},
                    spark_dynamicAllocation_initialExecutors="6",
                    spark_dynamicAllocation_minExecutors="3",
                )
            },
            (6, 3),
            id="all by settings",
        ),
    ],
)
def test_how_many_executors(spec: dict[str, Any], want: tuple[int, int]) -> None:
    assert (executor_count(app(**spec)), least_executors(app(**spec))) == want


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        pytest.param({"driver": {"memory": "1.5g"}}, "spec.driver.memory", id="a fraction"),
        pytest.param({"driver": {"memory": "1Gi"}}, "spec.driver.memory", id="as Kubernetes"),
        pytest.param(
            {"driver": {"memory": f"1{' ' * 200_000}!"}},
            "spec.driver.memory",
            id="searched from each of its blanks, it would take minutes",
        ),
        pytest.param({"memoryOverheadFactor": "ten"}, "memoryOverheadFactor", id="a factor"),
        pytest.param({"memoryOverheadFactor": "-1"}, "memoryOverheadFactor", id="a negative one"),
        pytest.param(
            {"sparkConf": conf(spark_executor_instances="x")},
            "spark.executor.instances",
            id="count",
        ),
    ],
)
def test_invalid_sizes(spec: dict[str, Any], names: str) -> None:
    with pytest.raises(SparkValueError, match=names):
        spark_pod_sets(app(**spec))


def test_the_webhook_adds_fields_without_a_setting_of_spark() -> None:
    sidecar = {"name": "log", "resources": {"requests": {"cpu": "100m"}}}
    spec = app(
        nodeSelector={"arch": "arm64"},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "other"}],
        driver={
            "gpu": {"name": "nvidia.com/gpu", "quantity": 2},
            "sidecars": [sidecar],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}],
            "volumeMounts": [{"name": "data", "mountPath": "/d"}],
            "nodeSelector": {"zone": "z"},
            "tolerations": [{"key": "gpu"}],
            "labels": {"a": "b"},
            "priorityClassName": "high",
        },
    )
    template = template_of_role(spec, "driver")
    want = {"cpu": 3000, "memory": 1408 * MIB, "nvidia.com/gpu": 2}
    assert pod_requests(template.spec) == want
    assert [each.name for each in template.spec.containers] == ["spark-kubernetes-driver", "log"]
    assert template.spec.node_selector == {"arch": "arm64", "zone": "z"}
    assert [each.name for each in template.spec.volumes] == ["data"]
    assert template.spec.tolerations == ({"key": "gpu"},)
    assert (template.metadata.labels, template.spec.priority_class_name) == ({"a": "b"}, "high")


def test_the_webhook_leaves_a_pod_template_alone() -> None:
    main = {"name": "spark-kubernetes-executor", "resources": {"requests": {"cpu": "9"}}}
    side = {"name": "log", "resources": {"requests": {"cpu": "100m"}}}
    of = {
        "template": {"spec": {"containers": [side, main], "nodeSelector": {"zone": "z"}}},
        "gpu": {"name": "nvidia.com/gpu", "quantity": 2},
        "labels": {"a": "b"},
    }
    template = template_of_role(app(executor=of), "executor")
    assert pod_requests(template.spec) == {"cpu": 1100, "memory": 1408 * MIB}
    assert template.spec.node_selector == {"zone": "z"}
    assert template.metadata.labels == {"a": "b"}
    old = template_of_role(app(executor=of, sparkVersion="2.4.5"), "executor")
    assert pod_requests(old.spec)["nvidia.com/gpu"] == 2, "Spark 2 knows no templates"


def test_accelerators_by_setting() -> None:
    settings = conf(
        spark_executor_resource_gpu_amount="2", spark_executor_resource_gpu_vendor="amd.com"
    )
    settings |= conf(spark_executor_resource_fpga_amount="1")
    sets = spark_pod_sets(app(sparkConf=settings))
    got = {each.name: pod_requests(each.template.spec) for each in sets}
    assert got["executor"] == {"cpu": 1000, "memory": 1408 * MIB, "amd.com/gpu": 2}
    assert got["driver"] == {"cpu": 1000, "memory": 1408 * MIB}


def test_a_driver_that_runs_elsewhere_requests_nothing() -> None:
    assert [each.name for each in spark_pod_sets(app(mode="client"))] == ["executor"]
    assert [each.name for each in spark_pod_sets(app(mode="cluster"))] == ["driver", "executor"]


def expected(body: dict[str, Any]) -> dict[str, int]:
    """Add up an application by Spark's documentation, without the code under test."""
    factor = Fraction(body.get("memoryOverheadFactor") or ("0.4", "0.1")[body["type"] == "Java"])

    def one(of: dict[str, Any]) -> tuple[int, int]:
        memory = int(of["memory"][:-1]) * (1024 if of["memory"].endswith("g") else 1)
        overhead = max(int(factor * memory), 384)
        if "memoryOverhead" in of:
            overhead = int(of["memoryOverhead"][:-1])
        cores = int(of["coreRequest"][:-1]) if "coreRequest" in of else 1000 * of.get("cores", 1)
        return cores, (memory + overhead) * MIB

    count = body["executor"].get("instances", 1)
    if dynamic := body.get("dynamicAllocation"):
        given = (dynamic.get("initialExecutors"), dynamic.get("minExecutors"))
        count = max(body["executor"].get("instances", 0), *(each or 0 for each in given))
    (cpu, memory), (more_cpu, more_memory) = one(body["driver"]), one(body["executor"])
    return {"cpu": cpu + count * more_cpu, "memory": memory + count * more_memory}


def random_app(chance: random.Random) -> dict[str, Any]:
    def maybe(**given: Any) -> dict[str, Any]:
        return {key: value for key, value in given.items() if chance.random() < 0.5}

    def role() -> dict[str, Any]:
        unit, most = chance.choice([("m", 9000), ("g", 60)])
        return {"memory": f"{chance.randrange(1, most)}{unit}"} | maybe(
            cores=chance.randrange(1, 9),
            coreRequest=f"{chance.randrange(1, 9000)}m",
            memoryOverhead=f"{chance.randrange(9000)}m",
        )

    dynamic = {"enabled": True} | maybe(
        initialExecutors=chance.randrange(9), minExecutors=chance.randrange(9)
    )
    return {
        "type": chance.choice(["Java", "Python"]),
        "sparkVersion": "4.0.0",
        "driver": role(),
        "executor": role() | maybe(instances=chance.randrange(1, 9)),
    } | maybe(memoryOverheadFactor=f"0.{chance.randrange(100):02}", dynamicAllocation=dynamic)


@pytest.mark.parametrize("seed", range(100))
def test_demand_of_any_application(seed: int) -> None:
    body = random_app(random.Random(seed))
    got = demand_of(spark_pod_sets(msgspec.convert(body, SparkSpec)))
    assert got == expected(body)


DRIVERS = "spark.kubernetes.authenticate.driver.serviceAccountName"
EXECUTORS = "spark.kubernetes.authenticate.executor.serviceAccountName"
TEMPLATE = {"spec": {"serviceAccountName": "template", "containers": [{}]}}


@pytest.mark.parametrize(
    ("spec", "driver", "executor"),
    [
        pytest.param({}, "", "", id="none is named"),
        pytest.param({"driver": {"serviceAccount": "a"}}, "a", "a", id="the driver's for both"),
        pytest.param({"executor": {"serviceAccount": "b"}}, "", "b", id="the executors' own"),
        pytest.param({"sparkConf": {DRIVERS: "a", EXECUTORS: "b"}}, "a", "b", id="by settings"),
        pytest.param(
            {"driver": {"serviceAccount": "a"}, "sparkConf": {DRIVERS: "c"}}, "a", "a", id="a field"
        ),
        pytest.param({"driver": {"template": TEMPLATE}}, "template", "", id="by a template"),
        pytest.param(
            {"driver": {"serviceAccount": "a", "template": TEMPLATE}},
            "a",
            "a",
            id="a field before the driver's template",
        ),
        pytest.param(
            {"executor": {"serviceAccount": "b", "template": TEMPLATE}},
            "",
            "template",
            id="the executors' template before a field",
        ),
    ],
)
def test_pods_run_under_a_service_account(spec: dict[str, Any], driver: str, executor: str) -> None:
    named = [template_of_role(app(**spec), role).spec.account for role in ("driver", "executor")]
    assert named == [driver, executor]
