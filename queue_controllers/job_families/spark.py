"""The pods that a SparkApplication asks for: Spark's own arithmetic, on fields and settings. Pure.

No template says what a driver or an executor requests. spark-submit computes it from fields of the
application and from `sparkConf`, and the operator hands the fields over after the conf, so that
they win; only the overhead factor it hands over before. Where there is no pod template, the
operator's webhook adds what Spark has no setting for: GPUs, sidecars, tolerations and the like.

Memory is that of the JVM, plus an overhead of max(factor x memory, 384 MiB), plus for executors
what Python and off-heap memory are given. Spark multiplies in floating point and cuts off; here it
is exact and cut off, so at most 1 MiB more.

Source: Spark 4.0, docs "Running on Kubernetes" and "Configuration", BasicDriverFeatureStep,
BasicExecutorFeatureStep; spark-operator v2.5.2, internal/controller/sparkapplication/submission.go,
api/v1beta2/defaults.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from queue_controllers.jobframework.generic_job import JobPodSet
from queue_controllers.jobframework.pod_set_names import MAX_COUNT
from queue_controllers.jobframework.pod_template import (
    ScheduledContainer,
    ScheduledPodSpec,
    ScheduledPodTemplate,
    TemplateVolume,
)
from shared_api.objects.meta import WireStruct
from shared_api.objects.pod import ResourceQuantities, ResourceRequirements, TemplateMeta

DRIVER: Final = "driver"
EXECUTOR: Final = "executor"
"""Pod sets, fields of the spec, and roles in Spark's settings."""

MIN_OVERHEAD_MIB: Final = 384
JVM_OVERHEAD_FACTOR: Final = "0.1"
OTHER_OVERHEAD_FACTOR: Final = "0.4"
"""What is added to the memory at least, and what part of it; the last for Python and R."""

DEFAULT_MEMORY: Final = "1g"
DEFAULT_EXECUTORS: Final = 1
"""What the operator fills in."""

_TEMPLATES_SINCE: Final = 3
"""Spark's major version that takes pod templates."""

_MEMORY: Final = re.compile(r"([0-9]{1,15})\s*([a-z]*)", re.IGNORECASE)
_FACTOR: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,17}))?")
"""An overhead factor; a float64 has no more than 17 digits."""
_BYTES: Final = {
    "b": 1,
    "k": 2**10,
    "kb": 2**10,
    "m": 2**20,
    "mb": 2**20,
    "g": 2**30,
    "gb": 2**30,
    "t": 2**40,
    "tb": 2**40,
    "p": 2**50,
    "pb": 2**50,
}
_MIB: Final = 2**20


class SparkValueError(ValueError):
    """A value cannot be parsed; the message starts with the field or setting."""


class Gpu(WireStruct, frozen=True):
    """`gpu`."""

    name: str = ""
    quantity: int = 0


class VolumeMount(WireStruct, frozen=True):
    """A mount; only its name is read."""

    name: str = ""


class SparkRole(WireStruct, frozen=True):
    """`driver` or `executor`; `instances` is of executors only."""

    instances: int | None = None
    cores: int | None = None
    core_request: str | None = None
    memory: str | None = None
    memory_overhead: str | None = None
    gpu: Gpu | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: dict[str, Any] | None = None
    tolerations: tuple[dict[str, Any], ...] = ()
    scheduler_name: str = ""
    priority_class_name: str = ""
    service_account: str = ""
    host_network: bool | None = None
    sidecars: tuple[ScheduledContainer, ...] = ()
    init_containers: tuple[ScheduledContainer, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    template: ScheduledPodTemplate | None = None


class DynamicAllocation(WireStruct, frozen=True):
    """`dynamicAllocation`."""

    enabled: bool = False
    initial_executors: int | None = None
    min_executors: int | None = None


class BatchSchedulerOptions(WireStruct, frozen=True):
    """`batchSchedulerOptions`."""

    priority_class_name: str = ""


class SparkSpec(WireStruct, frozen=True):
    """`spec` of a SparkApplication."""

    suspend: bool | None = None
    type: str = ""
    mode: str = ""
    spark_version: str = ""
    image: str = ""
    memory_overhead_factor: str | None = None
    spark_conf: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    volumes: tuple[TemplateVolume, ...] = ()
    batch_scheduler_options: BatchSchedulerOptions = BatchSchedulerOptions()
    dynamic_allocation: DynamicAllocation = DynamicAllocation()
    driver: SparkRole = SparkRole()
    executor: SparkRole = SparkRole()


def spark_pod_sets(spec: SparkSpec) -> tuple[JobPodSet, ...]:
    """Return the driver, unless it runs elsewhere, and the executors that it begins with.

    Raises:
        SparkValueError: As `memory_mib`, `executor_count`.
    """
    roles = [(EXECUTOR, executor_count(spec))]
    if spec.mode != "client":
        roles.insert(0, (DRIVER, 1))
    return tuple(
        [
            JobPodSet(
                name=role, count=count, template=template_of_role(spec, role), has_limits=False
            )
            for role, count in roles
        ]
    )


# --- counts -------------------------------------------------------------------------------------


def executor_count(spec: SparkSpec) -> int:
    """Return how many executors it begins with.

    With dynamic allocation the largest of the initial and the least number and the instances, as
    Spark has it; more of them come and go later.

    Raises:
        SparkValueError: A setting is no number.
    """
    instances = spec.executor.instances
    if instances is None:
        instances = _int_of(spec, "spark.executor.instances")
    if not is_dynamic(spec):
        return min(DEFAULT_EXECUTORS if instances is None else max(instances, 0), MAX_COUNT)
    least = least_executors(spec)
    initial = spec.dynamic_allocation.initial_executors
    if initial is None:
        initial = _int_of(spec, "spark.dynamicAllocation.initialExecutors")
    return min(max(least, initial or 0, instances or 0), MAX_COUNT)


def least_executors(spec: SparkSpec) -> int:
    """Return how many executors it keeps when it has nothing to do.

    Raises:
        SparkValueError: A setting is no number.
    """
    if not is_dynamic(spec):
        return executor_count(spec)
    least = spec.dynamic_allocation.min_executors
    if least is None:
        least = _int_of(spec, "spark.dynamicAllocation.minExecutors")
    return max(least or 0, 0)


def is_dynamic(spec: SparkSpec) -> bool:
    """Return whether Spark changes the number of executors as it runs."""
    setting = spec.spark_conf.get("spark.dynamicAllocation.enabled", "")
    return spec.dynamic_allocation.enabled or _is_true(setting)


# --- amounts ------------------------------------------------------------------------------------


def memory_mib(spec: SparkSpec, role: str) -> int:
    """Return what a driver or executor requests, in MiB.

    Raises:
        SparkValueError: A field or setting cannot be parsed.
    """
    of, conf = _role(spec, role), spec.spark_conf
    memory = _read_mib(
        *_first(of.memory, f"spec.{role}.memory", conf, f"spark.{role}.memory", DEFAULT_MEMORY)
    )
    total = memory + _overhead_mib(spec, role, memory)
    if role == EXECUTOR:
        total += _python_mib(spec) + _off_heap_mib(conf)
    return total


def _overhead_mib(spec: SparkSpec, role: str, memory: int) -> int:
    of, conf = _role(spec, role), spec.spark_conf
    setting = f"spark.{role}.memoryOverhead"
    text, where = _first(of.memory_overhead, f"spec.{role}.memoryOverhead", conf, setting, "")
    if text:
        return _read_mib(text, where)
    setting = f"spark.{role}.minMemoryOverhead"
    least = _read_mib(conf.get(setting, str(MIN_OVERHEAD_MIB)), setting)
    numerator, denominator = _overhead_factor(spec, role)
    return max(memory * numerator // denominator, least)


def _overhead_factor(spec: SparkSpec, role: str) -> tuple[int, int]:
    """Return the factor as a fraction: the role's own, or the common one, or the type's."""
    conf = spec.spark_conf
    for setting in (f"spark.{role}.memoryOverheadFactor", "spark.kubernetes.memoryOverheadFactor"):
        if conf.get(setting):
            return _read_factor(conf[setting], setting)
    if spec.memory_overhead_factor:
        return _read_factor(spec.memory_overhead_factor, "spec.memoryOverheadFactor")
    is_other = spec.type in {"Python", "R"}
    return _read_factor(OTHER_OVERHEAD_FACTOR if is_other else JVM_OVERHEAD_FACTOR, "spec.type")


def _python_mib(spec: SparkSpec) -> int:
    setting = "spark.executor.pyspark.memory"
    return _read_mib(spec.spark_conf.get(setting, "0"), setting) if spec.type == "Python" else 0


def _off_heap_mib(conf: Mapping[str, str]) -> int:
    if not _is_true(conf.get("spark.memory.offHeap.enabled", "")):
        return 0
    setting = "spark.memory.offHeap.size"
    return _read_bytes(conf.get(setting, "0"), setting, default_unit="b") // _MIB


def _first(
    field: str | None, path: str, conf: Mapping[str, str], setting: str, default: str
) -> tuple[str, str]:
    """Return the field's or else the setting's value, and which of them it is."""
    return (field, path) if field else (conf.get(setting) or default, setting)


def _read_mib(text: str, where: str) -> int:
    return _read_bytes(text, where, default_unit="m") // _MIB


def _read_bytes(text: str, where: str, *, default_unit: str) -> int:
    """Read a size as Spark does: "512m", "2g", or a number of the default unit."""
    match = _MEMORY.fullmatch(text.strip())
    unit = match.group(2).lower() if match else ""
    if match is None or (unit and unit not in _BYTES):
        raise SparkValueError(
            f"{where}: {text[:40]!r} is no size as Spark reads it, such as 512m or 2g"
        )
    return int(match.group(1)) * _BYTES[unit or default_unit]


def _read_factor(text: str, where: str) -> tuple[int, int]:
    match = _FACTOR.fullmatch(text.strip())
    if match is None:
        raise SparkValueError(f"{where}: {text[:40]!r} is no factor such as 0.2")
    whole, digits = match.group(1), match.group(2) or ""
    return int(whole + digits), 10 ** len(digits)


def _int_of(spec: SparkSpec, setting: str) -> int | None:
    text = spec.spark_conf.get(setting)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise SparkValueError(f"{setting}: {text[:40]!r} is no number") from error


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def _role(spec: SparkSpec, role: str) -> SparkRole:
    return spec.driver if role == DRIVER else spec.executor


# --- templates ----------------------------------------------------------------------------------


def has_template(spec: SparkSpec, role: str) -> bool:
    """Return whether Spark makes the pod from a template; then the webhook leaves it alone."""
    major = spec.spark_version.partition(".")[0]
    takes_one = not major.isdecimal() or int(major) >= _TEMPLATES_SINCE
    return takes_one and _role(spec, role).template is not None


def template_of_role(spec: SparkSpec, role: str) -> ScheduledPodTemplate:
    """Return the pod that Spark and the operator will create, as a template.

    Raises:
        SparkValueError: As `memory_mib`.
    """
    of = _role(spec, role)
    base = of.template if has_template(spec, role) and of.template else ScheduledPodTemplate()
    metadata = TemplateMeta(
        labels={**base.metadata.labels, **of.labels},
        annotations={**base.metadata.annotations, **of.annotations},
    )
    pod = base.spec if has_template(spec, role) else _pod_of_fields(spec, of)
    pod = msgspec.structs.replace(
        pod,
        containers=_containers(spec, role, pod.containers),
        node_selector={**spec.node_selector, **pod.node_selector},
        service_account_name=_account(spec, role, pod),
        service_account="",
    )
    return ScheduledPodTemplate(metadata=metadata, spec=pod)


def _account(spec: SparkSpec, role: str, template: ScheduledPodSpec) -> str:
    """Return the service account that a role's pods run under, "" for the namespace's default.

    A driver's template comes last, an executor's first (Spark 4.2; earlier versions do so only for
    its deprecated field). Executors without an account run under the driver's.
    """
    if role == DRIVER:
        return _named_account(spec, DRIVER) or template.account
    return template.account or _named_account(spec, role) or _named_account(spec, DRIVER)


def _named_account(spec: SparkSpec, role: str) -> str:
    """Return the account that a role's field, else its setting, names."""
    setting = f"spark.kubernetes.authenticate.{role}.serviceAccountName"
    return _role(spec, role).service_account or spec.spark_conf.get(setting, "")


def _pod_of_fields(spec: SparkSpec, of: SparkRole) -> ScheduledPodSpec:
    """Return what the webhook puts into a pod that Spark created without a template."""
    mounted = {each.name for each in of.volume_mounts}
    gpus: ResourceQuantities = {of.gpu.name: of.gpu.quantity} if of.gpu and of.gpu.name else {}
    main = ScheduledContainer(resources=ResourceRequirements(limits=gpus))
    return ScheduledPodSpec(
        containers=(main, *of.sidecars),
        init_containers=of.init_containers,
        volumes=tuple(each for each in spec.volumes if each.name in mounted),
        node_selector=of.node_selector,
        affinity=of.affinity,
        tolerations=of.tolerations,
        scheduler_name=of.scheduler_name,
        priority_class_name=of.priority_class_name,
        host_network=of.host_network,
        restart_policy="Never",
    )


def _containers(
    spec: SparkSpec, role: str, given: tuple[ScheduledContainer, ...]
) -> tuple[ScheduledContainer, ...]:
    """Return the containers, with Spark's amounts in its own: the one so named, else the first."""
    name = f"spark-kubernetes-{role}"
    names = [each.name for each in given]
    at = names.index(name) if name in names else 0
    before = given[at] if given else ScheduledContainer()
    kept = {
        key: value
        for key, value in before.resources.requests.items()
        if key not in {"cpu", "memory"}
    }
    requested = {**before.resources.limits, **_accelerators(spec.spark_conf, role)}
    limits = {key: value for key, value in requested.items() if key not in {"cpu", "memory"}}
    requests = {**kept, "cpu": _cpu(spec, role), "memory": f"{memory_mib(spec, role)}Mi"}
    container = msgspec.structs.replace(
        before,
        name=name,
        image=before.image or spec.image,
        resources=ResourceRequirements(requests=requests, limits=limits),
    )
    return (*given[:at], container, *given[at + 1 :])


def _cpu(spec: SparkSpec, role: str) -> str:
    """Return the request: that of Kubernetes before Spark's number of cores; a limit is none."""
    of, conf = _role(spec, role), spec.spark_conf
    request = of.core_request or conf.get(f"spark.kubernetes.{role}.request.cores")
    cores = str(of.cores) if of.cores is not None else conf.get(f"spark.{role}.cores")
    return request or cores or "1"


def _accelerators(conf: Mapping[str, str], role: str) -> dict[str, str]:
    """Return what `spark.<role>.resource.<name>.amount` and `.vendor` ask for."""
    found = {}
    for key, amount in conf.items():
        match = re.fullmatch(rf"spark\.{role}\.resource\.([^.]+)\.amount", key)
        vendor = match and conf.get(f"spark.{role}.resource.{match.group(1)}.vendor")
        if match and vendor:
            found[f"{vendor}/{match.group(1)}"] = amount
    return found
