"""The columns that `kubectl get` prints for the built-in kinds that this project uses.

Names, priorities, and cells are those of kube-apiserver 1.36. A cell that needs data which the fake
server lacks (such as restart counts) shows what an API server shows without a kubelet.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from shared_api.durations import human_duration
from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.table_printer import AGE, NAME, Cell, TableColumn, age, age_of

_NONE: Final = "<none>"
_UNKNOWN: Final = "<unknown>"


def _field(*path: str, absent: JsonValue = _NONE) -> Cell:
    def cell(body: Body, _now: datetime) -> JsonValue:
        value: JsonValue = body
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return absent if value in (None, "") else value

    return cell


def _has_condition(body: Body, condition_type: str, status: str = "True") -> bool:
    conditions = body.get("status", {}).get("conditions", ())
    return any(c.get("type") == condition_type and c.get("status") == status for c in conditions)


# ------------------------------------------------------------------------------------------ jobs


def _job_status(body: Body, _now: datetime) -> JsonValue:
    for condition in ("Complete", "Failed"):
        if _has_condition(body, condition):
            return condition
    if body["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for condition in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _has_condition(body, condition):
            return condition
    return "Running"


def _job_completions(body: Body, _now: datetime) -> JsonValue:
    spec, succeeded = body.get("spec", {}), body.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(body: Body, now: datetime) -> JsonValue:
    status = body.get("status", {})
    if not status.get("startTime"):
        return ""
    if not status.get("completionTime"):
        return age(status["startTime"], now)
    ran = datetime.fromisoformat(status["completionTime"]) - datetime.fromisoformat(
        status["startTime"]
    )
    return human_duration(ran.total_seconds())


def _template_containers(key: str) -> Cell:
    def cell(body: Body, _now: datetime) -> JsonValue:
        template = body.get("spec", {}).get("template", {}).get("spec", {})
        return ",".join(container.get(key, "") for container in template.get("containers", ()))

    return cell


def _selector(body: Body, _now: datetime) -> JsonValue:
    labels = body.get("spec", {}).get("selector", {}).get("matchLabels", {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


JOB_COLUMNS: Final = (
    NAME,
    TableColumn("Status", _job_status),
    TableColumn("Completions", _job_completions),
    TableColumn("Duration", _job_duration),
    AGE,
    TableColumn("Containers", _template_containers("name"), priority=1),
    TableColumn("Images", _template_containers("image"), priority=1),
    TableColumn("Selector", _selector, priority=1),
)


# ------------------------------------------------------------------------------------------ pods


def _pod_ready(body: Body, _now: datetime) -> JsonValue:
    statuses = body.get("status", {}).get("containerStatuses", ())
    ready = sum(1 for status in statuses if status.get("ready"))
    return f"{ready}/{len(body.get('spec', {}).get('containers', ()))}"


def _pod_status(body: Body, _now: datetime) -> JsonValue:
    status = body.get("status", {})
    if body["metadata"].get("deletionTimestamp") and status.get("phase") not in {
        "Succeeded",
        "Failed",
    }:
        return "Terminating"
    if status.get("phase") == "Succeeded":
        return "Completed"
    if body.get("spec", {}).get("schedulingGates"):
        return "SchedulingGated"
    return status.get("reason") or status.get("phase", "")


def _pod_restarts(body: Body, _now: datetime) -> JsonValue:
    statuses = body.get("status", {}).get("containerStatuses", ())
    return str(sum(status.get("restartCount", 0) for status in statuses))


def _none(_body: Body, _now: datetime) -> JsonValue:
    return _NONE


POD_COLUMNS: Final = (
    NAME,
    TableColumn("Ready", _pod_ready),
    TableColumn("Status", _pod_status),
    TableColumn("Restarts", _pod_restarts),
    AGE,
    TableColumn("IP", _field("status", "podIP"), priority=1),
    TableColumn("Node", _field("spec", "nodeName"), priority=1),
    TableColumn("Nominated Node", _field("status", "nominatedNodeName"), priority=1),
    TableColumn("Readiness Gates", _none, priority=1),
)


# ----------------------------------------------------------------------------------------- nodes

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


def _node_status(body: Body, _now: datetime) -> JsonValue:
    if _has_condition(body, "Ready"):
        status = "Ready"
    elif _has_condition(body, "Ready", "False") or _has_condition(body, "Ready", "Unknown"):
        status = "NotReady"
    else:
        status = "Unknown"
    return f"{status},SchedulingDisabled" if body.get("spec", {}).get("unschedulable") else status


def _node_roles(body: Body, _now: datetime) -> JsonValue:
    labels = body["metadata"].get("labels", {})
    roles = [key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)]
    return ",".join(sorted(roles)) or _NONE


def _node_info(key: str, absent: str) -> Cell:
    return _field("status", "nodeInfo", key, absent=absent)


NODE_COLUMNS: Final = (
    NAME,
    TableColumn("Status", _node_status),
    TableColumn("Roles", _node_roles),
    AGE,
    TableColumn("Version", _node_info("kubeletVersion", "")),
    TableColumn("Internal-IP", _none, priority=1),
    TableColumn("External-IP", _none, priority=1),
    TableColumn("OS-Image", _node_info("osImage", _UNKNOWN), priority=1),
    TableColumn("Kernel-Version", _node_info("kernelVersion", _UNKNOWN), priority=1),
    TableColumn("Container-Runtime", _node_info("containerRuntimeVersion", _UNKNOWN), priority=1),
)


# ---------------------------------------------------------------------------------------- events


def _event_object(body: Body, _now: datetime) -> JsonValue:
    about = body.get("involvedObject", {})
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(body: Body, _now: datetime) -> JsonValue:
    source = body.get("source", {})
    component = source.get("component") or body.get("reportingComponent", "")
    instance = source.get("host") or body.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def _event_last_seen(body: Body, now: datetime) -> JsonValue:
    series = body.get("series") or {}
    seen = series.get("lastObservedTime") or body.get("lastTimestamp") or body.get("eventTime")
    return age(seen or body["metadata"].get("creationTimestamp"), now)


def _event_first_seen(body: Body, now: datetime) -> JsonValue:
    return age(body.get("firstTimestamp") or body.get("eventTime"), now)


def _event_count(body: Body, _now: datetime) -> JsonValue:
    return (body.get("series") or {}).get("count") or body.get("count") or 1


EVENT_COLUMNS: Final = (
    TableColumn("Last Seen", _event_last_seen),
    TableColumn("Type", _field("type", absent="")),
    TableColumn("Reason", _field("reason", absent="")),
    TableColumn("Object", _event_object),
    TableColumn("Subobject", _field("involvedObject", "fieldPath", absent=""), priority=1),
    TableColumn("Source", _event_source, priority=1),
    TableColumn("Message", _field("message", absent="")),
    TableColumn("First Seen", _event_first_seen, priority=1),
    TableColumn("Count", _event_count, priority=1),
    TableColumn("Name", NAME.cell, format="name", priority=1),
)

# ---------------------------------------------------------------------------------- small kinds

NAMESPACE_COLUMNS: Final = (NAME, TableColumn("Status", _field("status", "phase", absent="")), AGE)
LEASE_COLUMNS: Final = (
    NAME,
    TableColumn("Holder", _field("spec", "holderIdentity", absent="")),
    AGE,
)
PRIORITY_CLASS_COLUMNS: Final = (
    NAME,
    TableColumn("Value", _field("value", absent=0), type="integer"),
    TableColumn("Global-Default", _field("globalDefault", absent=False), type="boolean"),
    TableColumn("Age", age_of),
    TableColumn("PreemptionPolicy", _field("preemptionPolicy", absent="")),
)
