"""An installation without problems, as the checks see it; tests change one part of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from koord_queue.checks.every_check import CHECKS
from koord_queue.checks.facts import Answer, Facts
from koord_queue.checks.findings import Finding
from shared_api.crds import DEFINITIONS, GROUP, VERSION
from shared_api.timestamps import rfc3339_micro

NOW: Final = datetime(2026, 11, 26, 10, tzinfo=UTC)
Json = dict[str, Any]


def ago(**span: float) -> str:
    """Return a time before now, as the API server writes it."""
    return rfc3339_micro(NOW - timedelta(**span))


def listed(*items: Json) -> Answer:
    return Answer({"metadata": {}, "items": list(items)})


def named(name: str, namespace: str = "", **more: Any) -> Json:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": metadata, **more}


def condition(kind: str, status: str, reason: str = "", message: str = "", **more: Any) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, **more}


def deployment(component: str, *args: str, ready: int = 1, **spec: Any) -> Json:
    name = {"scheduler": "koord-queue"}.get(component, f"koord-queue-{component}")
    labels = {"app.kubernetes.io/component": component, "app.kubernetes.io/version": "0.1.0"}
    lease = f"--leader-elect-lease-name={name}-lease"
    container = {"image": "koord-queue:0.1.0", "args": [lease, *args]}
    pod = {"serviceAccountName": name, "containers": [container]}
    return {
        "metadata": {"name": name, "namespace": "koord-queue", "labels": labels},
        "spec": {"replicas": 1, "template": {"spec": pod}, **spec},
        "status": {"readyReplicas": ready},
    }


def lease(name: str = "koord-queue-lease", renewed: str | None = None, holder: str = "a") -> Json:
    spec = {"holderIdentity": holder, "renewTime": renewed or ago(seconds=2)}
    return named(name, "koord-queue", spec={**spec, "leaseDurationSeconds": 15})


def crd(plural: str) -> Json:
    """Return a CRD as the API server stores it."""
    definition = next(each for each in DEFINITIONS if each.plural == plural)
    return definition.body() | {"status": {"conditions": [condition("Established", "True")]}}


def healthy() -> Facts:
    """Return facts in which no check finds anything wrong, but the rights."""
    served = {"resources": [{"name": each.plural} for each in DEFINITIONS]}
    quotas = {"resources": [{"name": "elasticquotas"}]}
    return Facts(
        version="0.1.0",
        now=NOW,
        server_time=NOW,
        server=Answer({"gitVersion": "v1.36.2"}),
        served={
            f"{GROUP}/{VERSION}": Answer(served),
            "scheduling.sigs.k8s.io/v1alpha1": Answer(quotas),
            "visibility.koord-queue/v1alpha1": Answer(),
        },
        crds={each.plural: Answer(crd(each.plural)) for each in DEFINITIONS},
        deployments=listed(deployment("scheduler")),
        leases=listed(lease()),
        config_maps=listed(),
        validating=listed(named("koord-queue-release-jobs")),
        validating_bindings=listed(
            named(
                "b", spec={"policyName": "koord-queue-release-jobs", "validationActions": ["Deny"]}
            )
        ),
        mutating=Answer(),
        mutating_bindings=Answer(),
        api_service=Answer(),
        queues=listed(
            named("q", "koord-queue", status={"conditions": [condition("Ready", "True")]})
        ),
        quota_policies=listed(),
        queue_reservations=listed(),
        quotas=listed(named("team-a")),
        units=listed(),
        events=listed(),
        resumed=listed(),
    )


def found(check: str, **changes: Any) -> list[Finding]:
    """Return what a check finds where some facts are others."""
    return list(CHECKS[check](msgspec.structs.replace(healthy(), **changes)))


def finding_texts(check: str, **changes: Any) -> list[str]:
    """Return the same as `level: text`."""
    return [f"{each.level}: {each.text}" for each in found(check, **changes)]
