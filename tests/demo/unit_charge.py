"""The quota usage of a job, computed only from the objects.

Independent of the scheduler's own usage, which it checks: from the decision until the end, a unit
uses what will live. These are its living pods, each at the larger of itself and its template; those
that end, as they are; and those that were granted and do not live. All units here have one pod set.
After the end or an eviction, a unit uses the requests of pods that still live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from shared_api.quantity import amount
from tests.demo.json_api import Json
from tests.object_states import is_living, is_true, occupies_quota

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
    living = [pod for pod in pods if is_living(pod)]
    total = _sum(requests_of(pod) for pod in living)
    if unit is None or not occupies_quota(unit):
        return total
    total = _largest(total, granted_to(unit))
    return _largest(total, _will_live(unit, living)) if _makes_pods(unit) else total


def _makes_pods(unit: Json) -> bool:
    """Return whether pods of the job are replaced: it is not being stopped."""
    stays = unit["spec"].get("active") is not False and "deletionTimestamp" not in unit["metadata"]
    return stays and not is_true(unit, "Evicted")


def _will_live(unit: Json, living: list[Json]) -> Amounts:
    status = unit["status"]
    (template, *others) = [each["template"] for each in unit["spec"].get("podSet", ())] or [None]
    if template is None or others or not status.get("admissions"):
        return {}
    asked = requests_of(template)
    granted = sum(each["replicas"] for each in status["admissions"])
    left = max(0, granted - sum(e["count"] for e in status.get("reclaimablePods") or ()))
    ends = [requests_of(pod) for pod in living if "deletionTimestamp" in pod["metadata"]]
    stays = [requests_of(pod) for pod in living if "deletionTimestamp" not in pod["metadata"]]
    missing = left - len(stays)
    if missing < 0:
        return {}
    return _sum([*ends, *(_largest(each, asked) for each in stays), *([asked] * missing)])


def _sum(all_amounts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for amounts in all_amounts:
        for resource, needed in amounts.items():
            total[resource] = total.get(resource, 0) + needed
    return total


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {key: max(one.get(key, 0), other.get(key, 0)) for key in {**one, **other}}


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
