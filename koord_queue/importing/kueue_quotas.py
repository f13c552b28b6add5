"""ClusterQueues and Cohorts as a tree of ElasticQuotas. Pure.

`min` is what is nominal, of all flavors together. `max` adds what may be borrowed: the borrowing
limit, or without one all that is nominal in the tree of cohorts. All quotas of a tree name the same
resources, as Koordinator's webhook demands: one that a ClusterQueue does not cover has max 0, since
Kueue admits no workload that requests it there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from koord_queue.errors import CommandError
from koord_queue.importing.kueue_objects import (
    ClusterQueue,
    Cohort,
    FairSharing,
    KueueObjects,
    ResourceGroup,
    ResourceQuota,
)
from koord_queue.importing.plan import NOTHING, Became, Json, Lost, Plan, own_metadata, shown
from shared_api.objects.meta import ObjectMeta
from shared_api.quantity import QuantityError, amount, format_amount, milli_value
from shared_api.well_known_labels import (
    QUOTA_ALLOW_LENT,
    QUOTA_IS_PARENT,
    QUOTA_NAMESPACES,
    QUOTA_PARENT,
    QUOTA_SHARED_WEIGHT,
    RECLAIM_POLICY,
)

Amounts = dict[str, int]

API_VERSION: Final = "scheduling.sigs.k8s.io/v1alpha1"
MAX_NAME: Final = 63
"""Jobs and quotas name a quota in a label, whose value has at most so many characters."""
DEFAULT_LOCAL_QUEUE: Final = "default"
"""The LocalQueue that jobs of its namespace have that name none."""
NEVER: Final = "Never"
COUNT_OF_PODS: Final = "pods"
NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources without a domain that pods can request; others are Kueue's own."""


class QuotaTree:
    """The ElasticQuotas of ClusterQueues and Cohorts.

    Args:
        objects: Kueue's.
        namespace: The namespace of the ElasticQuotas.
    """

    def __init__(self, objects: KueueObjects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace
        self._queues = {each.metadata.name: each for each in objects.cluster_queues}
        self._cohorts = {each.metadata.name: each for each in objects.cohorts}
        for each in objects.cluster_queues:
            if each.cohort:
                self._cohorts.setdefault(each.cohort, _implicit(each.cohort))
        for cohort in tuple(self._cohorts.values()):
            if parent := cohort.spec.parent_name:
                self._cohorts.setdefault(parent, _implicit(parent))
        self._totals = {name: self._total(name, ()) for name in self._cohorts}

    def plan(self) -> Plan:
        """Return the quotas, parents first."""
        plan = Plan()
        for name in sorted(self._cohorts, key=lambda each: (len(self._above(each)), each)):
            plan += self._of_cohort(self._cohorts[name])
        for _, queue in sorted(self._queues.items()):
            plan += self._of_queue(queue)
        return plan

    def name_of_cohort(self, cohort: str) -> str:
        """Return the name of a cohort's quota: names of quotas are global."""
        return f"{cohort}-cohort" if cohort in self._queues else cohort

    # --- one quota ----------------------------------------------------------------------------

    def _of_queue(self, queue: ClusterQueue) -> Plan:
        source = f"ClusterQueue {queue.metadata.name}"
        groups, cohort = queue.spec.resource_groups, queue.cohort
        nominal = sums(groups, source)
        least = self._named_alike(nominal, cohort)
        most = self._most(groups, nominal, cohort, source)
        labels = {QUOTA_PARENT: self.name_of_cohort(cohort)} if cohort else {}
        lent = _lending(groups, nominal)
        if cohort and any(nominal.values()) and not any(lent.values()):
            labels[QUOTA_ALLOW_LENT] = "false"
        annotations = self._weight(queue.spec.fair_sharing, cohort, most)
        reclaims = queue.spec.preemption.reclaim_within_cohort
        if cohort and reclaims != NEVER:
            annotations[RECLAIM_POLICY] = reclaims
        namespaces = self._namespaces_by_default(queue.metadata.name)
        if namespaces:
            annotations[QUOTA_NAMESPACES] = json.dumps(namespaces)
        plan = self._quota(queue.metadata.name, source, least, most, labels, annotations)
        lost = (
            *_lost_of_groups(groups, nominal, lent, source, cohort),
            *self._lost_flavors(groups, source),
        )
        return plan + Plan(lost=lost)

    def _of_cohort(self, cohort: Cohort) -> Plan:
        name, parent = cohort.metadata.name, cohort.spec.parent_name
        source, groups = f"Cohort {name}", cohort.spec.resource_groups
        total = self._named_alike(self._totals[name], name)
        most = self._most(groups, self._totals[name], parent, source)
        labels = {QUOTA_IS_PARENT: "true"}
        if parent:
            labels[QUOTA_PARENT] = self.name_of_cohort(parent)
        annotations = self._weight(cohort.spec.fair_sharing, parent, most)
        plan = self._quota(self.name_of_cohort(name), source, total, most, labels, annotations)
        nominal = sums(groups, source)
        lost = _lost_of_groups(groups, nominal, _lending(groups, nominal), source, parent)
        return plan + Plan(lost=(*lost, *self._lost_flavors(groups, source)))

    def _lost_flavors(self, groups: Iterable[ResourceGroup], source: str) -> Iterator[Lost]:
        """Yield flavors that do not exist: Kueue admits nothing then, while a quota has no flavors.

        Files without any flavor are only a part of Kueue's objects: nothing is missed there.
        """
        known = {each.metadata.name for each in self._objects.resource_flavors}
        named = dict.fromkeys(flavor.name for group in groups for flavor in group.flavors)
        missing = [name for name in named if name not in known]
        if known and missing:
            why = f"there is no ResourceFlavor {', '.join(missing)}: Kueue admits nothing then"
            yield Lost(source, "spec.resourceGroups[flavors]", f"{why}; its amounts count here")

    def _quota(
        self,
        name: str,
        source: str,
        least: Amounts,
        most: Amounts,
        labels: dict[str, str],
        annotations: dict[str, str],
    ) -> Plan:
        if len(name) > MAX_NAME:
            why = f"a quota is named in a label, which has at most {MAX_NAME} characters"
            lost = Lost(source, "metadata.name", f"{why}; give it a shorter name in Kueue first")
            return Plan(became=(Became(source, "", NOTHING),), lost=(lost,))
        if not most:
            lost = Lost(source, "spec.resourceGroups", "it has no quota, and would limit nothing")
            return Plan(became=(Became(source, "", NOTHING),), lost=(lost,))
        body = {
            "apiVersion": API_VERSION,
            "kind": "ElasticQuota",
            "metadata": own_metadata(name, self._namespace, labels=labels, annotations=annotations),
            "spec": {"min": _texts(least), "max": _texts(most)},
        }
        how = f"min {_listed(least)}; max {_listed(most)}"
        return Plan(objects=(body,), became=(Became(source, shown(body), how),))

    # --- amounts ------------------------------------------------------------------------------

    def _most(
        self, groups: Iterable[ResourceGroup], own: Amounts, parent: str, source: str
    ) -> Amounts:
        """Return `max`: what is its own, and what it may borrow from the tree of its parent."""
        if not parent:
            return own
        whole = self._whole(parent)
        limits = _borrowing(groups, source)
        most = {
            name: min(whole[name], value + limits[name]) if name in limits else whole[name]
            for name, value in own.items()
        }
        return self._named_alike(most, parent)

    def _whole(self, cohort: str) -> Amounts:
        """Return all that is nominal in the tree of a cohort."""
        return self._totals[(self._above(cohort) or (cohort,))[-1]]

    def _named_alike(self, amounts: Amounts, cohort: str) -> Amounts:
        """Return amounts of all resources that the tree of a cohort has; those it lacks are 0."""
        whole = self._whole(cohort) if cohort else amounts
        return {name: amounts.get(name, 0) for name in whole}

    def _total(self, cohort: str, below: tuple[str, ...]) -> Amounts:
        """Return all that is nominal in a cohort, and in what is below it.

        Raises:
            CommandError: The cohorts form a cycle.
        """
        if cohort in below:
            raise CommandError(
                f"the cohorts form a cycle: {' -> '.join((*below, cohort))}",
                "Correct their parentName; Kueue admits nothing in such a tree either.",
            )
        own = self._cohorts[cohort]
        found = dict(sums(own.spec.resource_groups, f"Cohort {cohort}"))
        for queue in self._queues.values():
            if queue.cohort == cohort:
                source = f"ClusterQueue {queue.metadata.name}"
                _add(found, sums(queue.spec.resource_groups, source))
        for name, each in self._cohorts.items():
            if each.spec.parent_name == cohort:
                _add(found, self._total(name, (*below, cohort)))
        return found

    def _above(self, cohort: str) -> tuple[str, ...]:
        """Return the cohorts above one, the root last."""
        parent = self._cohorts[cohort].spec.parent_name
        return (parent, *self._above(parent)) if parent else ()

    def _weight(self, sharing: FairSharing, parent: str, most: Amounts) -> dict[str, str]:
        """Return the annotation for shares, if one of those below a parent has a weight."""
        weights = [each.spec.fair_sharing.weight for each in self._siblings(parent)]
        if not most or all(weight is None for weight in weights):
            return {}
        # Only their ratio counts; thousandths are whole numbers of any resource.
        share = milli_value("1" if sharing.weight is None else sharing.weight)
        return {QUOTA_SHARED_WEIGHT: json.dumps({name: str(share) for name in most})}

    def _siblings(self, parent: str) -> list[ClusterQueue | Cohort]:
        queues = [each for each in self._queues.values() if each.cohort == parent]
        cohorts = [each for each in self._cohorts.values() if each.spec.parent_name == parent]
        return [*queues, *cohorts] if parent else []

    def _namespaces_by_default(self, queue: str) -> list[str]:
        return sorted(
            each.metadata.namespace
            for each in self._objects.local_queues
            if each.spec.cluster_queue == queue and each.metadata.name == DEFAULT_LOCAL_QUEUE
        )


def sums(groups: Iterable[ResourceGroup], source: str) -> Amounts:
    """Return what is nominal of each resource that an ElasticQuota can limit, of all flavors."""
    found: Amounts = {}
    for each in _limited(groups):
        _add(found, {each.name: _amount(each.name, each.nominal_quota, source)})
    return found


def _borrowing(groups: Iterable[ResourceGroup], source: str) -> Amounts:
    """Return the limits of borrowing; a resource with a flavor that has none is left out."""
    found: Amounts = {}
    unlimited = set()
    for each in _limited(groups):
        if each.borrowing_limit is None:
            unlimited.add(each.name)
        else:
            _add(found, {each.name: _amount(each.name, each.borrowing_limit, source)})
    return {name: value for name, value in found.items() if name not in unlimited}


def _lending(groups: Iterable[ResourceGroup], nominal: Amounts) -> Amounts:
    """Return how much of each resource is lent at most."""
    found: Amounts = dict.fromkeys(nominal, 0)
    for each in _limited(groups):
        limit = each.nominal_quota if each.lending_limit is None else each.lending_limit
        own = _amount(each.name, each.nominal_quota, "")
        _add(found, {each.name: min(own, _amount(each.name, limit, ""))})
    return found


def _limited(groups: Iterable[ResourceGroup]) -> Iterator[ResourceQuota]:
    for group in groups:
        for flavor in group.flavors:
            yield from (each for each in flavor.resources if _is_limited(each.name))


def _is_limited(resource: str) -> bool:
    return resource in NATIVE or "/" in resource or resource.startswith("hugepages-")


def _lost_of_groups(
    groups: Iterable[ResourceGroup], nominal: Amounts, lent: Amounts, source: str, parent: str
) -> Iterator[Lost]:
    """Yield what of resource groups is no part of a quota."""
    flavors = [flavor for group in groups for flavor in group.flavors]
    for name in dict.fromkeys(each.name for flavor in flavors for each in flavor.resources):
        if name == COUNT_OF_PODS:
            why = "quotas do not count pods; limit what each pod requests"
            yield Lost(source, "spec.resourceGroups[pods]", why)
        elif not _is_limited(name):
            why = "no pod requests it: Kueue's transformations of resources make it"
            yield Lost(source, f"spec.resourceGroups[{name}]", why)
    partial = [name for name, most in lent.items() if most < nominal[name]]
    if parent and partial and any(lent.values()):
        shown_limits = ", ".join(f"{name} {format_amount(name, lent[name])}" for name in partial)
        why = f"a quota lends all of its idle min or nothing: {shown_limits} becomes all"
        yield Lost(source, "spec.resourceGroups[lendingLimit]", why)
    for group in groups:
        if len(group.flavors) > 1:
            names = ", ".join(flavor.name for flavor in group.flavors)
            why = f"a quota has no flavors: the amounts of {names} are added up"
            yield Lost(source, "spec.resourceGroups[flavors]", why)


def _amount(resource: str, text: str | float, source: str) -> int:
    try:
        return amount(resource, text)
    except QuantityError as error:
        raise CommandError(f"{source}: {resource}: {error}") from error


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _texts(amounts: Amounts) -> Json:
    return {name: format_amount(name, value) for name, value in amounts.items()}


def _listed(amounts: Amounts) -> str:
    return ", ".join(f"{name} {text}" for name, text in _texts(amounts).items()) or "nothing"


def _implicit(name: str) -> Cohort:
    """Return a cohort that is only named, without an object."""
    return Cohort(metadata=ObjectMeta(name=name))
