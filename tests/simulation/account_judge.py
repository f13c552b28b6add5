"""Judges every write of the programs against the objects, independently of the programs' counts.

What a job is charged is read from its unit and pods (`tests.demo.unit_charge`). A write is judged
by what its writer could know: a program acts on caches, so changes after the newest version in them
excuse it, and nothing else does. The rules, each with the name under which it is reported:

- *never over*: admitting a unit takes no quota, and no ancestor of it, over the limit of its mode,
  unless a fact (an edited quota, pods or bookings without a decision) arrived meanwhile; pods of a
  deleted unit count as far as the writer can know their quota, and pods that name another quota
  than their job count there;
- *legal moves*: a unit moves as the table of phases says, by the actors it names;
- *waits its time*: a unit in backoff is requeued only when its backoff has ended;
- *one unit*: a job has one unit;
- *admitted first*: a job is released when its unit is admitted and no pod of an earlier run is
  left; it is suspended when its unit is not admitted, or is being evicted;
- *stopped before freed*: a unit releases its quota when no pod of its job is alive;
- *nodes first*: a unit of a strict queue is admitted when all its pods have been granted nodes;
- *given back for good*: an unmanaged unit whose owner has given everything back is granted nothing
  more before it has been in the queue again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from queue_scheduler.queueing.strict_mode import StrictMode
from shared_api.objects.queue_unit import QueueUnit
from shared_api.queue_unit_phases import ADOPTED, IllegalMoveError, Phase, Writer, check_move
from shared_api.timestamps import parse_time
from shared_api.well_known_labels import (
    ATTEMPT,
    MANAGED_BY,
    UNIT_UID,
)
from tests.demo.unit_charge import Amounts, controller_uid, requests_of
from tests.object_states import is_living, occupies_quota, phase_of
from tests.simulation.accounts import Account, annotations_of, job_uid, quota_of
from tests.simulation.change_feed import ChangeEvent, Json
from tests.simulation.judged_quotas import JudgedQuotas
from tests.simulation.stepped_programs import Process

NEVER_OVER: Final = "never over"
LEGAL_MOVES: Final = "legal moves"
WAITS: Final = "waits its time"
_VERDICTS: Final = frozenset({Phase.SCHED_SUCCEED, Phase.SCHED_FAILED})
CLOCK_JUMP_SECONDS: Final = 10.0
"""Wall clocks jump by up to this much in a run."""
ONE_UNIT: Final = "one unit"
ADMITTED_FIRST: Final = "admitted first"
STOPPED_FIRST: Final = "stopped before freed"
NODES_FIRST: Final = "nodes first"
GIVEN_BACK: Final = "given back for good"


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken rule: its name, the key of the object, and how it was broken."""

    rule: str
    key: str
    how: str


class AccountJudge:
    """Judges changes given to `take`; `broken` collects the violations.

    Args:
        processes: all processes so far, by the names under which they act.
        now: the wall clock.
        strict: the queues that ask for nodes first.
        is_min_the_limit: whether a quota's own limit is its min (mode `min`).
        has_trees: whether the schedulers know several trees of quotas.
        may_be_twice: whether controllers run side by side without election. A job may then have two
            units, for as long as one controller does not know the other's.
    """

    def __init__(
        self,
        processes: Mapping[str, Process],
        now: Callable[[], datetime],
        *,
        strict: StrictMode,
        is_min_the_limit: bool,
        has_trees: bool,
        may_be_twice: bool,
    ) -> None:
        self.broken: list[Broken] = []
        self.accounts: dict[str, Account] = {}
        """By the uid of the job; a unit without a job by its own uid."""
        self._processes = processes
        self._now = now
        self._strict = strict
        self._is_min_the_limit = is_min_the_limit
        self._may_be_twice = may_be_twice
        self._quotas = JudgedQuotas(processes, has_trees=has_trees)
        self._facts: dict[str, dict[str, int]] = {}
        """quota -> kind -> the newest version at which something was charged without a decision

        Ancestors are not included: they may be different by the time of a decision."""
        self._admitted_at: dict[str, int] = {}
        """process -> the version of its newest admission"""
        self._granted: dict[tuple[str, str], set[str]] = {}
        """(uid of a unit, attempt) -> the reservations that had a node at some time"""

    def take(self, event: ChangeEvent) -> None:
        """Take in a change, and judge its writer."""
        match event.plural:
            case "elasticquotas":
                self._quotas.take(event)
            case "queueunits":
                self._on_unit(event)
            case "jobs":
                self._on_job(event)
            case "pods":
                self._on_pod(event)
            case "reservations":
                self._on_reservation(event)
            case _:
                pass

    def _break(self, rule: str, event: ChangeEvent, how: str) -> None:
        self.broken.append(Broken(rule, event.key, f"{event.actor}: {how}"))

    # --- quotas -------------------------------------------------------------------------------

    def _charges(self, level: str, process: str) -> Iterator[tuple[Account, Amounts]]:
        """Iterate over what a process can know is charged to a quota and its descendants."""
        for account in self.accounts.values():
            charge = account.charge_known_to(process)
            if charge and level in self._quotas.chain(account.quota, process):
                yield account, charge
            for quota, moved in account.elsewhere.items():
                if moved and level in self._quotas.chain(quota, process):
                    yield account, moved

    def _used(self, level: str, process: str) -> Amounts:
        total: Amounts = {}
        for _, charge in self._charges(level, process):
            for resource, charged in charge.items():
                total[resource] = total.get(resource, 0) + charged
        return total

    def _limit(self, level: str, process: str, *, is_own: bool) -> Amounts:
        quota = self._quotas.find(level, process)
        if quota is None:
            return {}
        if self._is_min_the_limit and is_own:
            return {key: quota.least.get(key, 0) for key in quota.most}
        return quota.most

    # --- units --------------------------------------------------------------------------------

    def _on_unit(self, event: ChangeEvent) -> None:
        account = self.accounts.setdefault(job_uid(event.body), Account())
        before = account.units.pop(event.key, None)
        if before is not None and before["metadata"]["uid"] != event.uid:
            before = None
        account.put_unit(event)
        if account.pods and not account.units:
            account.leave_behind({each.name: each.seen() for each in self._processes.values()})
        if len(account.units) > 1 and before is None and not self._may_be_twice:
            self._break(ONE_UNIT, event, f"the job has {sorted(account.units)}")
        occupied, occupies = before is not None and occupies_quota(before), False
        if not event.is_gone:
            occupies = occupies_quota(event.body)
            if not (occupied and occupies) and account.quota != quota_of(event.body):
                account.quota, account.quota_since = quota_of(event.body), event.version
                account.charge = {}  # all of it is new to this quota
        account.note_state(event.version)
        if before is None and account.pods:
            # Until now these pods belonged to no unit; the deciding process may not know them yet.
            self._note_fact(account, event)
            self._note(account, "pods", max(account.pods_since.values()))
        process = self._processes.get(event.actor)
        is_decision = (
            process is not None and process.scheduler is not None and occupies and not occupied
        )
        grown = self._recharge(account, event, is_decision=is_decision)
        if process is None or event.is_gone:
            return
        self._judge_move(event, before, process)
        self._judge_nodes(event, before, account, process)
        if is_decision:
            self._judge_admission(event, account, process, grown)
        if occupied:
            self._judge_occupying(event, before, account, process)

    def _judge_move(self, event: ChangeEvent, before: Json | None, process: Process) -> None:
        if before is None or phase_of(before) == phase_of(event.body):
            return
        # The proof of an adoption comes with the move that it allows.
        shown = event.body["status"].get("conditions", ())
        proof = [each for each in shown if each["type"] == ADOPTED]
        conditions = [*(before["status"].get("conditions") or ()), *proof]
        story = {**before, "status": {**before["status"], "conditions": conditions}}
        unit = msgspec.convert(story, QueueUnit)
        to = Phase(phase_of(event.body))
        if process.scheduler is not None:
            writer = Writer.SCHEDULER
        else:
            writer = Writer.RESERVATIONS if to in _VERDICTS else Writer.CONTROLLERS
        try:
            check_move(unit, to, writer)
        except IllegalMoveError as error:
            self._break(LEGAL_MOVES, event, str(error))
        state = before["status"].get("requeueState") or {}
        if phase_of(before) == Phase.TIMEOUT_BACKOFF and state.get("requeueAt"):
            early = (parse_time(state["requeueAt"]) - self._now()).total_seconds()
            if phase_of(event.body) == Phase.ENQUEUED and early > CLOCK_JUMP_SECONDS:
                self._break(WAITS, event, f"{early} s too early")

    def _judge_nodes(
        self, event: ChangeEvent, before: Json | None, account: Account, process: Process
    ) -> None:
        """Judge an admission in a strict queue, or the verdict that leads to it."""
        moved = ("" if before is None else phase_of(before), phase_of(event.body))
        if moved == ("SchedReady", "SchedSucceed"):
            attempt = str(event.body["status"].get("attempts", 0))
            granted = self._granted.get((event.uid, attempt), set())
            wanted = min(_replicas(event.body), account.least_pods(process.seen().get("jobs", 0)))
            if len(granted) < wanted:
                self._break(NODES_FIRST, event, f"{len(granted)} of {wanted} pods have a node")
        elif moved[0] in {"Enqueued", "Reserved"} and moved[1] == "Dequeued":
            queue = process.decided_queue.get(event.key, "")
            needed = _demand_of(event.body)
            if queue and self._strict.next_phase(queue, needed) is not Phase.DEQUEUED:
                self._break(NODES_FIRST, event, f"queue {queue} is strict, it asks for {needed}")

    def _judge_admission(
        self, event: ChangeEvent, account: Account, process: Process, asked: Sequence[str]
    ) -> None:
        """Judge an admission by the resources of which it takes more than was charged before."""
        knew = process.decided.get(event.key, {})
        self._admitted_at[process.name] = event.version
        if self._quotas.changed_at > knew.get("elasticquotas", 0):
            return
        others = (at for name, at in self._admitted_at.items() if name != process.name)
        if not process.elects and max(others, default=0) > knew.get("queueunits", 0):
            return  # its last write was still in flight when its successor began
        for place, level in enumerate(self._quotas.chain(account.quota, process.name)):
            if self._has_news(level, process.name, knew):
                continue
            limit = self._limit(level, process.name, is_own=not place)
            used = self._used(level, process.name)
            over = {r: used[r] for r in asked if r in limit and used[r] > limit[r]}
            if over:
                who = ", ".join(
                    f"{sorted(each.units)} and {sorted(each.pods)} {charge}"
                    for each, charge in self._charges(level, process.name)
                )
                how = f"quota {level} is at {over}, its limit {limit}: {who}"
                self._break(NEVER_OVER, event, how)

    def _has_news(self, level: str, process: str, knew: Mapping[str, int]) -> bool:
        """Return whether a quota, or a descendant, was charged what this process cannot know."""
        return any(
            version > knew.get(plural, 0)
            for quota, facts in self._facts.items()
            if level in self._quotas.chain(quota, process)
            for plural, version in facts.items()
        )

    def _judge_occupying(
        self, event: ChangeEvent, before: Json | None, account: Account, process: Process
    ) -> None:
        """Judge a write to a booked unit: whether it could be released, or be granted more.

        Pods of a unit without a job may come at any time, even while it is being released.
        """
        if before is not None and is_given_back(before) and _replicas(event.body):
            self._break(GIVEN_BACK, event, "it is granted something before it was free")
        if occupies_quota(event.body) or phase_of(event.body) in {"Succeed", "Failed"}:
            return
        knew = {} if process.scheduler is None else process.scheduler.knew
        seen = knew.get(event.key, process.seen()).get("pods", 0)
        living = [k for k in self._pods_known(account, seen) if is_living(account.pods[k])]
        if before is not None and job_uid(before) == event.uid:
            asked_at = int(before["metadata"]["resourceVersion"])
            living = [key for key in living if account.pods_since[key] < asked_at]
        if living:
            self._break(STOPPED_FIRST, event, f"these pods live: {living}")

    # --- jobs and pods ------------------------------------------------------------------------

    def _on_job(self, event: ChangeEvent) -> None:
        account = self.accounts.setdefault(event.uid, Account())
        before, account.job = account.job, None if event.is_gone else event.body
        account.note_pods(event)
        process = self._processes.get(event.actor)
        if event.is_gone or before is None or process is None:
            return
        was, now = bool(before["spec"].get("suspend")), bool(event.body["spec"].get("suspend"))
        since = process.seen().get("queueunits", 0)
        if was and not now:
            if not account.was_admitted(since):
                self._break(ADMITTED_FIRST, event, "released a job that is not admitted")
            if left := self._pods_known(account, process.seen().get("pods", 0)):
                self._break(ADMITTED_FIRST, event, f"released a job that still has pods {left}")
        if now and not was and not account.was_held(since):
            self._break(ADMITTED_FIRST, event, "suspended a job that is admitted")

    def _on_pod(self, event: ChangeEvent) -> None:
        # A pod that has lost its owner, which was deleted without it, belongs to none from then on.
        owner = controller_uid(event.body) or (controller_uid(event.before) if event.before else "")
        if not owner:
            return
        account = self.accounts.setdefault(owner, Account())
        if event.is_gone or not controller_uid(event.body):
            account.drop_pod(event.key)
        else:
            is_new = event.key not in account.pods
            if not (account.pods or account.units):
                account.quota = ""  # of a long deleted unit: the pods name their own
            account.put_pod(event)
            if is_new:
                self._note_fact(account, event)
        self._recharge(account, event, is_decision=False)

    def _pods_known(self, account: Account, seen: int) -> list[str]:
        """Return the pods that still hold something, as they were known up to a version."""
        return [
            key
            for key, pod in account.pods.items()
            if account.pods_since[key] <= seen
            and (is_living(pod) or "deletionTimestamp" in pod["metadata"])
        ]

    def _on_reservation(self, event: ChangeEvent) -> None:
        labels, status = event.body["metadata"]["labels"], event.body.get("status", {})
        if status.get("phase") in {"Available", "Succeeded"}:
            attempt = labels[UNIT_UID], labels[ATTEMPT]
            self._granted.setdefault(attempt, set()).add(event.key)

    # --- charges ------------------------------------------------------------------------------

    def _recharge(self, account: Account, event: ChangeEvent, *, is_decision: bool) -> list[str]:
        """Charge a job anew; return the resources of which it takes more than before."""
        before, moved = account.charge, account.elsewhere
        account.recharge()
        for quota, amounts in account.elsewhere.items():
            if any(n > moved.get(quota, {}).get(key, 0) for key, n in amounts.items()):
                self._note_in(quota, event.plural, event.version)
        now = account.charge
        grown = [key for key in sorted(now) if now[key] > before.get(key, 0)]
        if grown and not is_decision:
            self._note_fact(account, event)
        elif grown and account.ends_since:
            self._note(account, "pods", max(account.ends_since.values()))
        return grown

    def _note_fact(self, account: Account, event: ChangeEvent) -> None:
        self._note(account, event.plural, event.version)
        self._note(account, "queueunits", account.quota_since)

    def _note(self, account: Account, plural: str, version: int) -> None:
        self._note_in(account.quota, plural, version)

    def _note_in(self, quota: str, plural: str, version: int) -> None:
        facts = self._facts.setdefault(quota, {})
        facts[plural] = max(version, facts.get(plural, 0))


def is_given_back(unit: Json) -> bool:
    """Return whether the owner of an unmanaged unit has given everything back."""
    admissions = unit.get("status", {}).get("admissions") or ()
    asks = any(each["count"] for each in unit["spec"].get("podSet") or ())
    is_managed = MANAGED_BY in annotations_of(unit)
    asked_back = any(each.get("reclaimState") for each in admissions)
    wants = asks and bool(admissions) and not asked_back and not is_managed
    return wants and occupies_quota(unit) and not _replicas(unit)


def _demand_of(unit: Json) -> Amounts:
    """Return what all pods of a unit request together."""
    total: Amounts = {}
    for pod_set in unit["spec"].get("podSet") or ():
        for resource, each in requests_of(pod_set["template"]).items():
            total[resource] = total.get(resource, 0) + each * pod_set["count"]
    return total


def _replicas(unit: Json) -> int:
    return sum(each["replicas"] for each in unit.get("status", {}).get("admissions") or ())
