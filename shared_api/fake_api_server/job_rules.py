"""Defaulting and validation of batch/v1 Jobs.

Refused is what suspending and resuming a job can run into, and what a stand-in for the Job
controller must respect: a finished job needs `SuccessCriteriaMet` (`FailureTarget`) first, and a
start time. All of it was tried on kube-apiserver 1.36.3.
"""

from __future__ import annotations

from typing import Final

from shared_api.fake_api_server.api_errors import Cause, immutable, invalid_value, required
from shared_api.fake_api_server.patching import Body, JsonValue
from shared_api.fake_api_server.pod_rules import (
    TEMPLATE_DEFAULTS,
    check_containers,
    with_container_defaults,
)
from shared_api.fake_api_server.resource_registry import ServerContext

_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NAME_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
_FREE_WHILE_HELD: Final = frozenset({"affinity", "nodeSelector", "schedulingGates", "tolerations"})
"""Mutable fields of the template's spec while the job is suspended and has no running pods. Labels,
annotations, and the resources of containers are mutable too."""


def prepare_job(body: Body, _surroundings: ServerContext) -> Body:
    """Return a new Job with defaults, selector, and generated labels, without a status."""
    metadata, given = body["metadata"], body.get("spec", {})
    spec = {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "manualSelector": False,
        **given,
    }
    if given.get("parallelism") is None and given.get("completions") is None:
        spec["completions"] = 1
    spec = fill_job({"spec": spec})["spec"]
    template = dict(spec["template"])
    if not spec["manualSelector"]:
        own = _own_labels(metadata)
        spec["selector"] = {"matchLabels": {_UID_LABELS[0]: metadata["uid"]}}
        template_metadata = template.get("metadata") or {}
        template["metadata"] = {
            **template_metadata,
            "labels": {**(template_metadata.get("labels") or {}), **own},
        }
        if not metadata.get("labels"):
            # Source: defaults of batch/v1: a Job without labels gets those of its template.
            metadata = {**metadata, "labels": template["metadata"]["labels"]}
    return {**body, "metadata": metadata, "spec": {**spec, "template": template}, "status": {}}


def fill_job(body: Body) -> Body:
    """Return a Job with defaults in its template."""
    spec = body.get("spec") or {}
    template = spec.get("template") or {}
    pod_spec = with_container_defaults({**TEMPLATE_DEFAULTS, **(template.get("spec") or {})})
    return {**body, "spec": {**spec, "template": {**template, "spec": pod_spec}}}


def _own_labels(metadata: Body) -> dict[str, JsonValue]:
    own: dict[str, JsonValue] = dict.fromkeys(_UID_LABELS, metadata["uid"])
    own.update(dict.fromkeys(_NAME_LABELS, metadata["name"]))
    return own


def check_job(new: Body, old: Body | None) -> list[Cause]:
    """Return what is invalid in a Job; `old` is None for a new one."""
    if old is None:
        return _check_new(new.get("spec", {}))
    causes: list[Cause] = []
    if new["spec"] is not old["spec"]:
        causes += _check_spec_change(new["spec"], old)
    if new.get("status") is not old.get("status"):
        causes += _check_status(new, old)
    return causes


def _check_new(spec: Body) -> list[Cause]:
    pod_spec = spec.get("template", {}).get("spec", {})
    causes = _check_counts(spec)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        causes.append(required("spec.completions", "when completion mode is Indexed"))
    causes += check_containers(pod_spec, "spec.template.spec")
    if pod_spec.get("restartPolicy") not in {"OnFailure", "Never"}:
        causes.append(
            required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
        )
    return causes


def _check_counts(spec: Body) -> list[Cause]:
    return [
        invalid_value(f"spec.{field}", spec[field], "must be greater than or equal to 0")
        for field in ("parallelism", "completions", "backoffLimit")
        if isinstance(spec.get(field), int) and spec[field] < 0
    ]


def _check_spec_change(new: Body, old_job: Body) -> list[Cause]:
    old = old_job["spec"]
    causes = _check_counts(new)
    if new.get("completions") != old.get("completions"):
        if new.get("completionMode") != "Indexed":
            causes.append(immutable("spec.completions", new.get("completions")))
        elif new.get("completions") != new.get("parallelism"):
            why = "can only be modified in tandem with spec.parallelism"
            causes.append(invalid_value("spec.completions", new.get("completions"), why))
    causes += [
        immutable(f"spec.{field}", new.get(field))
        for field in ("selector", "completionMode", "managedBy")
        if new.get(field) != old.get(field)
    ]
    mutable = _may_change_template(old_job)
    if _closed_part(new, mutable=mutable) != _closed_part(old, mutable=mutable):
        causes.append(immutable("spec.template", new["template"]))
    return causes


def _may_change_template(job: Body) -> bool:
    """Return whether the job is suspended without pods: never started, or completely stopped."""
    status = job.get("status", {})
    if not job["spec"].get("suspend"):
        return False
    stopped = _is_true(status, "Suspended") and not status.get("active")
    return "startTime" not in status or stopped


def _closed_part(spec: Body, *, mutable: bool) -> JsonValue:
    """Return the immutable part of the template."""
    template = spec.get("template", {})
    if not mutable:
        return template
    pod_spec = {
        key: value for key, value in template.get("spec", {}).items() if key not in _FREE_WHILE_HELD
    }
    for field in ("containers", "initContainers"):
        if field in pod_spec:
            pod_spec[field] = [{**container, "resources": {}} for container in pod_spec[field]]
    return pod_spec


def _is_true(status: Body, condition_type: str) -> bool:
    return any(
        condition.get("type") == condition_type and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _check_status(new_job: Body, old_job: Body) -> list[Cause]:
    new, old = new_job.get("status") or {}, old_job.get("status") or {}
    causes: list[Cause] = []
    complete, failed = _is_true(new, "Complete"), _is_true(new, "Failed")
    if complete or failed:
        if new.get("active"):
            why = "active>0 is invalid for finished job"
            causes.append(invalid_value("status.active", new["active"], why))
        if "startTime" not in new:
            causes.append(required("status.startTime", "startTime is required for finished job"))
    if complete and "completionTime" not in new:
        why = "completionTime is required for Complete jobs"
        causes.append(required("status.completionTime", why))
    if not complete and "completionTime" in new:
        why = "cannot set completionTime when there is no Complete=True condition"
        causes.append(invalid_value("status.completionTime", new["completionTime"], why))
    if (
        "startTime" in old
        and new.get("startTime") != old["startTime"]
        and not new_job["spec"].get("suspend")
    ):
        why = "field is immutable for unsuspended job once set"
        causes.append(invalid_value("status.startTime", new.get("startTime"), why))
    return causes + _check_conditions(new, old)


def _check_conditions(new: Body, old: Body) -> list[Cause]:
    wrong: list[str] = []
    for end, before in (("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")):
        if _is_true(new, end) and not _is_true(new, before):
            wrong.append(f"cannot set {end}=True condition without the {before}=true condition")
    wrong += [
        f"cannot disable the {kind}=True condition"
        for kind in ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
        if _is_true(old, kind) and not _is_true(new, kind)
    ]
    wrong += [
        f"cannot set {good}=True and {bad}=true conditions"
        for good in ("Complete", "SuccessCriteriaMet")
        for bad in ("Failed", "FailureTarget")
        if _is_true(new, good) and _is_true(new, bad)
    ]
    return [Cause("status.conditions", "FieldValueInvalid", f"Invalid value: {w}") for w in wrong]
