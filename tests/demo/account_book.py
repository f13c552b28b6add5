"""Checks the changes of jobs, units, pods, and quotas, given in order, against rules.

At every event: no decision and no pod makes a quota, or a quota above it, exceed its max; a pod
exists only while its unit is admitted; a job has one unit, is released once per admission, and
completes once, with all its pods.

A quota that exceeds its max because the max was lowered breaks no rule; further usage does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from shared_api.quantity import amount
from tests.demo.event_feed import Seen
from tests.demo.json_api import Json
from tests.demo.unit_charge import Amounts, chain_of, charge_of, controller_uid
from tests.object_states import ADMITTED_PHASES, is_living, is_true, occupies_quota, phase_of

_QUOTA_NAME: Final = "quota.scheduling.koordinator.sh/name"
_QUOTA_PARENT: Final = "quota.scheduling.koordinator.sh/parent"


@dataclass
class Account:
    """One job with its charged usage."""

    where: str
    """`namespace/name`, for messages."""
    quota: str = ""
    job: Json | None = None
    unit: Json | None = None
    pods: dict[str, Json] = field(default_factory=dict)
    charge: Amounts = field(default_factory=dict)
    admissions: int = 0
    releases: int = 0
    completions: int = 0


@dataclass
class _Quota:
    parent: str
    most: Amounts


class AccountBook:
    """Gets events by `apply` and returns violations as texts."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        """Accounts by the uid of the job, or of a unit without a job."""
        self.used: dict[str, Amounts] = {}
        """Usage by quota, including its children."""
        self._quotas: dict[str, _Quota] = {}

    def apply(self, seen: Seen) -> list[str]:
        """Apply an event; return the violations that it causes."""
        match seen.plural:
            case "elasticquotas":
                self._on_quota(seen)
                return []
            case "queueunits":
                return list(self._on_unit(seen))
            case "jobs":
                return list(self._on_job(seen))
            case "pods":
                return list(self._on_pod(seen))
            case _:
                return []

    def _account(self, uid: str, body: Json) -> Account:
        meta = body["metadata"]
        return self.accounts.setdefault(uid, Account(f"{meta['namespace']}/{meta['name']}"))

    # ------------------------------------------------------------------------------- events

    def _on_quota(self, seen: Seen) -> None:
        meta, spec = seen.body["metadata"], seen.body.get("spec", {})
        if seen.is_gone:
            self._quotas.pop(meta["name"], None)
            return
        most = {name: amount(name, text) for name, text in (spec.get("max") or {}).items()}
        self._quotas[meta["name"]] = _Quota(meta.get("labels", {}).get(_QUOTA_PARENT, ""), most)

    def _on_unit(self, seen: Seen) -> Iterator[str]:
        unit, meta = seen.body, seen.body["metadata"]
        uid = (unit["spec"].get("consumerRef") or {}).get("uid") or meta["uid"]
        account = self._account(uid, unit)
        before = account.unit
        if before is not None and before["metadata"]["uid"] != meta["uid"]:
            if seen.is_gone:
                return
            yield f"{account.where} has a second queue unit, {meta['name']}"
        account.unit = None if seen.is_gone else unit
        was_booked = before is not None and occupies_quota(before)
        if not was_booked and account.unit is not None and occupies_quota(account.unit):
            account.admissions += 1
        if seen.is_gone and was_booked and account.job is not None:
            yield f"the queue unit of {account.where} vanished while {phase_of(unit)}"
        if not account.quota:
            labels = meta.get("labels") or {}
            account.quota = labels.get(_QUOTA_NAME) or meta["namespace"]
        yield from self._recharge(account, seen.version)

    def _on_job(self, seen: Seen) -> Iterator[str]:
        job = seen.body
        account = self._account(job["metadata"]["uid"], job)
        before, account.job = account.job, None if seen.is_gone else job
        if seen.is_gone or before is None:
            return
        if before["spec"].get("suspend") and not job["spec"].get("suspend"):
            account.releases += 1
            if account.unit is None or phase_of(account.unit) not in ADMITTED_PHASES:
                yield f"{account.where} was released without being admitted"
            elif account.releases > account.admissions:
                yield f"{account.where} was released a second time"
        if is_true(job, "Complete") and not is_true(before, "Complete"):
            account.completions += 1
            if account.completions > 1:
                yield f"{account.where} completed a second time"

    def _on_pod(self, seen: Seen) -> Iterator[str]:
        pod = seen.body
        owner = controller_uid(pod)
        if not owner:
            return
        account = self.accounts.get(owner)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if account is None:
            yield f"pod {name} exists, and nobody has seen its job"
            return
        uid = pod["metadata"]["uid"]
        is_new = uid not in account.pods
        if is_new and is_living(pod) and not seen.is_gone:
            unit = account.unit
            if unit is None or phase_of(unit) not in ADMITTED_PHASES:
                phase = "has no queue unit" if unit is None else f"is {phase_of(unit)}"
                yield f"pod {name} exists before admission: {account.where} {phase}"
        if seen.is_gone:
            account.pods.pop(uid, None)
        else:
            account.pods[uid] = pod
        yield from self._recharge(account, seen.version)

    # ------------------------------------------------------------------------------- amounts

    def _recharge(self, account: Account, version: int) -> Iterator[str]:
        old, account.charge = account.charge, charge_of(account.unit, account.pods.values())
        for resource in sorted(old.keys() | account.charge.keys()):
            more = account.charge.get(resource, 0) - old.get(resource, 0)
            if more:
                yield from self._book(account, resource, more, version)

    def _book(self, account: Account, resource: str, more: int, version: int) -> Iterator[str]:
        for name in chain_of(account.quota, self._parent_of):
            used = self.used.setdefault(name, {})
            used[resource] = used.get(resource, 0) + more
            most = self._quotas[name].most.get(resource) if name in self._quotas else None
            if more > 0 and most is not None and used[resource] > most:
                yield (
                    f"{account.where} takes quota {name} to {used[resource]} {resource},"
                    f" its max is {most} (resourceVersion {version})"
                )

    def _parent_of(self, name: str) -> str:
        quota = self._quotas.get(name)
        return quota.parent if quota is not None else ""

    # ----------------------------------------------------------------------------- the end

    def complaints_at_the_end(self, submitted: int) -> Iterator[str]:
        """Yield what is missing once all jobs should have completed.

        Args:
            submitted: the number of jobs.
        """
        jobs = [account for account in self.accounts.values() if account.job is not None]
        if len(jobs) != submitted:
            yield f"{submitted} jobs were submitted, {len(jobs)} were seen"
        for account in sorted(jobs, key=lambda one: one.where):
            yield from _unfinished(account)


def _unfinished(account: Account) -> Iterator[str]:
    job, unit = account.job, account.unit
    if job is None:
        return
    if account.completions != 1:
        yield f"{account.where} completed {account.completions} times"
    wanted, succeeded = job["spec"]["completions"], job.get("status", {}).get("succeeded", 0)
    if succeeded != wanted:
        yield f"{account.where}: {succeeded} of {wanted} pods succeeded"
    if not 1 <= account.releases <= account.admissions:
        yield f"{account.where}: {account.admissions} admissions, {account.releases} releases"
    if unit is None:
        yield f"{account.where} has no queue unit"
    elif phase_of(unit) != "Succeed":
        yield f"the queue unit of {account.where} is {phase_of(unit)}, not Succeed"
    if any(account.charge.values()):
        yield f"{account.where} is still charged {account.charge}"
