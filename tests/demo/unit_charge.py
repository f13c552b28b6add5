"""The quota usage of a job, computed only from the objects.

Independent of the scheduler's own usage, which it checks: from the decision until the end, a unit
uses the larger of the requests of its living pods and its admissions. After the end or an eviction,
it uses the requests of pods that still live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from shared_api.quantity import amount
from tests.demo.json_api import Json
from tests.object_states import is_living, occupies_quota

Amounts = dict[str, int]
"""Amounts in base units, by resource."""

MOST_ANCESTORS: Final = 16
"""A longer chain is a loop."""


def requests_of(pod_or_template: Json) -> Amounts:
    """Return the requests of a pod. The demo's pods have only plain containers."""
    total: Amounts = {}
    for container in pod_or_template["spec"].get("containers", ()):
        for name, text in (container.get("resources", {}).get("requests") or {}).items():
            total[name] = total.get(name, 0) + amount(name, text)
    return total


def granted_to(unit: Json) -> Amounts:
    """Return the admissions of a charged unit, without reclaimed pods."""
    status = unit["status"]
    templates = {each["name"]: each["template"] for each in unit["spec"].get("podSet", ())}
    given_back = {each["name"]: each["count"] for each in status.get("reclaimablePods") or ()}
    total: Amounts = {}
    for admission in status.get("admissions") or ():
        name = admission["name"]
        pods = max(admission["replicas"] - given_back.get(name, 0), 0)
        each = requests_of(templates[name]) if name in templates else {}
        for resource, needed in each.items():
            total[resource] = total.get(resource, 0) + needed * pods
    return total


def charge_of(unit: Json | None, pods: Iterable[Json]) -> Amounts:
    """Return the current usage of a job."""
    total: Amounts = {}
    for pod in pods:
        if is_living(pod):
            for resource, needed in requests_of(pod).items():
                total[resource] = total.get(resource, 0) + needed
    if unit is not None and occupies_quota(unit):
        for resource, granted in granted_to(unit).items():
            total[resource] = max(total.get(resource, 0), granted)
    return total


def chain_of(quota: str, parent_of: Callable[[str], str]) -> Iterator[str]:
    """Yield a quota and its ancestors; `parent_of` returns "" for a root."""
    for _ in range(MOST_ANCESTORS):
        if not quota:
            return
        yield quota
        quota = parent_of(quota)


def controller_uid(pod: Json) -> str:
    """Return the uid of the job of a pod, or ""."""
    owners: list[Json] = pod["metadata"].get("ownerReferences") or []
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")
