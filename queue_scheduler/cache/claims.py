"""What the held pods of each job claim of the quotas that they name.

A unit is charged for the pods that its job is granted, held or not. So its held pods claim only
what they ask for beyond that: all of it while the unit is pending, and nothing once it is admitted
with as many. A claim counts in the quota that the pods' labels name, as for koord-scheduler.

Plugins are told a group of held pods as one foreign pod, under a key that is no pod's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from queue_scheduler.cache.held_pods import HELD, HeldPod, HeldPods, job_of_group
from queue_scheduler.cache.pod_accounting import FindUnit, PodAccounting
from queue_scheduler.framework.extension_points import ForeignPod
from queue_scheduler.framework.plugin_runner import PluginRunner
from queue_scheduler.quota.quota_decision import PodStage
from shared_api.objects.meta import Uid
from shared_api.objects.queue_unit import QueueUnit
from shared_api.resource_list import Amounts, subtract

Room = Callable[[Uid], tuple[str, Amounts]]
"""Returns the quota a unit is charged to ("": none), and what of the charge is for held pods."""


class Claims:
    """The held pods, which jobs they are of, and what plugins know of their claims.

    Args:
        plugins: They know which quota a pod names.
        pods: They know the units of a job.
        find_unit: Finds known units.
        room: What a unit is charged for its held pods.

    Attributes:
        held: The held pods.
    """

    def __init__(
        self, plugins: PluginRunner, pods: PodAccounting, find_unit: FindUnit, room: Room
    ) -> None:
        self.held = HeldPods()
        self._plugins = plugins
        self._pods = pods
        self._find_unit = find_unit
        self._room = room
        # Of jobs with claims: the keys that plugins know, and the units; by unit, the job.
        self._claimed_keys: dict[Uid, tuple[str, ...]] = {}
        self._units: dict[Uid, tuple[Uid, ...]] = {}
        self._job_of: dict[Uid, Uid] = {}

    # --- facts --------------------------------------------------------------------------------

    def note_unit(self, unit: QueueUnit) -> None:
        """Note that the unit of a job came, changed or went."""
        consumer = unit.spec.consumer_ref
        if len(self.held) and consumer is not None:
            self.held.note_job(consumer.uid)

    def note_charged(self, uid: Uid) -> None:
        """Note that the charge of a unit, or what its living pods ask for, has changed."""
        job = self._job_of.get(uid) if self._job_of else None
        if job is not None:
            self.held.note_job(job)

    # --- questions ----------------------------------------------------------------------------

    def take_changed(self) -> Iterator[tuple[str, ForeignPod | None]]:
        """Yield, once, the claims that may have changed, by key; None if it is gone."""
        for job in self.held.take_changed():
            claims = self._claims_of(job)
            for key in self._claimed_keys.get(job, ()):
                if key not in claims:
                    yield key, None
            self._remember(job, claims)
            yield from claims.items()

    def claim(self, key: str) -> ForeignPod | None:
        """Return the claim under a key; None if there is none, or it is the key of a pod."""
        return self._claims_of(job_of_group(key)).get(key) if key.startswith(HELD) else None

    def pods_of(self, unit: QueueUnit) -> list[str]:
        """Return the keys of the held pods of a unit's job."""
        consumer = unit.spec.consumer_ref
        if consumer is None:
            return []
        prefix = f"{unit.metadata.namespace}/"
        return [key for key in self.held.pods_of(consumer.uid) if key.startswith(prefix)]

    def fork(
        self, plugins: PluginRunner, pods: PodAccounting, find_unit: FindUnit, room: Room
    ) -> Claims:
        """Return an independent copy over copies of the other parts."""
        twin = Claims(plugins, pods, find_unit, room)
        twin.held = self.held.fork()
        twin._claimed_keys, twin._units = dict(self._claimed_keys), dict(self._units)
        twin._job_of = dict(self._job_of)
        return twin

    # --- inside -------------------------------------------------------------------------------

    def _claims_of(self, job: Uid) -> dict[str, ForeignPod]:
        claims: dict[str, ForeignPod] = {}
        for key, (first, pod, amounts) in self.held.groups_of(job).items():
            rest = subtract(amounts, self._covered(pod))
            claims[key] = ForeignPod(
                name=first,
                namespace=pod.namespace,
                labels=pod.labels,
                request={each: amount for each, amount in rest.items() if amount > 0},
                stage=PodStage.HELD,
                job=job,
            )
        return claims

    def _covered(self, pod: HeldPod) -> Amounts:
        """Return what is charged for the held pods of a job in the quota that this one names."""
        named = self._plugins.placing.quota_of_pod(pod.namespace, pod.labels)
        for unit in self._units_in(pod.job, pod.namespace):
            quota, room = self._room(unit)
            if quota and quota == named:
                return room
        return {}

    def _units_in(self, job: Uid, namespace: str) -> Iterator[Uid]:
        """Yield the units of a job: one, unless units that were made by hand name it, too.

        Those of other namespaces must not affect it.
        """
        for key in self._pods.owners.units_of(job):
            unit = self._find_unit(key)
            if unit is not None and unit.metadata.namespace == namespace:
                yield unit.metadata.uid

    def _remember(self, job: Uid, claims: Mapping[str, ForeignPod]) -> None:
        self._claimed_keys.pop(job, None)
        for uid in self._units.pop(job, ()):
            self._job_of.pop(uid, None)
        if not claims:
            return
        self._claimed_keys[job] = tuple(claims)
        units = {uid: None for pod in claims.values() for uid in self._units_in(job, pod.namespace)}
        self._units[job] = tuple(units)
        for uid in units:
            self._job_of[uid] = job
