"""Rights: what the user's commands need, and what the programs' service accounts need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from koord_queue.checks.facts import Facts, Json, Right, flag_of, part, some
from koord_queue.checks.findings import Finding, ok, problem, unknown, warning
from koord_queue.checks.programs import CONTROLLERS, LEASE_FLAG, SCHEDULER
from shared_api.crds import GROUP

QUOTAS: Final = "scheduling.sigs.k8s.io"
VISIBILITY: Final = "visibility.koord-queue"
REVIEW: Final = Right(verb="create", group="authorization.k8s.io", resource="subjectaccessreviews")
"""The right to ask what others may do."""

_VIEWER: Final = "have the ClusterRole koord-queue-{}-viewer bound to you"


class UserRight(NamedTuple):
    """A right of users.

    Attributes:
        right: The right.
        does: What commands do with it.
        fix: How to get it, if all users should have it; "" for acts, which few have.
    """

    right: Right
    does: str
    fix: str = ""


class ProgramRight(NamedTuple):
    """A right of a program: without it, it does not do `why`."""

    right: Right
    why: str


def rights_of_user(namespace: str, system: str, *, is_published: bool) -> list[UserRight]:
    """Return what the commands need.

    Args:
        namespace: The namespace of the user's jobs.
        system: The namespace of the installation, where the queues are.
        is_published: Whether the aggregated API is served.
    """
    units = Right(verb="list", group=GROUP, resource="queueunits", namespace=namespace)
    queues = Right(verb="list", group=GROUP, resource="queues", namespace=system)
    pending = Right(verb="list", group=VISIBILITY, resource="pendingunits", namespace=namespace)
    write_units = Right(verb="patch", group=GROUP, resource="queueunits", namespace=namespace)
    write_queues = Right(verb="patch", group=GROUP, resource="queues", namespace=system)
    asked = [
        UserRight(units, "see units", _VIEWER.format("queueunit")),
        UserRight(queues, "see queues", _VIEWER.format("queue")),
        UserRight(write_units, "change units"),
        UserRight(write_queues, "stop and resume queues"),
    ]
    if is_published:
        asked.append(
            UserRight(pending, "see positions and forecasts", _VIEWER.format("visibility"))
        )
    return asked


def check_rights(facts: Facts) -> Iterator[Finding]:
    """Yield what the user may do with commands."""
    may: list[str] = []
    may_not: list[str] = []
    bad: list[Finding] = []
    published = any(right.group == VISIBILITY for right in facts.mine)
    asked = rights_of_user(facts.namespace, facts.system_namespace, is_published=published)
    for each in asked:
        answer = facts.mine.get(each.right)
        if answer is None or not answer.is_known:
            why = "not asked" if answer is None else answer.why_unknown()
            bad.append(unknown("rights", f"whether you may {each.right}: {why}"))
        elif part(answer.value, "allowed") is True:
            may.append(each.does)
        elif each.fix:
            text = f"you may not {each.right}: commands do not {each.does}"
            bad.append(warning("rights", text, each.fix))
        else:
            may_not.append(each.does)
    if may:
        without = f"; not {' or '.join(may_not)}" if may_not else ""
        yield ok("rights", f"in namespace {facts.namespace} you {', '.join(may)}{without}")
    yield from bad


def rights_of_program(component: str, container: Json, system: str) -> list[ProgramRight]:
    """Return what a program needs, whatever its settings are.

    Args:
        component: `scheduler` or `controllers`; others need nothing that is known here.
        container: Its container, whose flags name its Lease.
        system: The namespace of the installation.
    """
    lease = flag_of(container, LEASE_FLAG)
    needed: list[ProgramRight] = []
    if component == SCHEDULER:
        needed = _of_scheduler(system)
    elif component == CONTROLLERS:
        needed = _of_controllers()
    if needed and lease:
        group = "coordination.k8s.io"
        right = Right(verb="patch", group=group, resource="leases", namespace=system, name=lease)
        needed.append(ProgramRight(right, "lead"))
    return needed


def _of_scheduler(system: str) -> list[ProgramRight]:
    units = "queueunits"
    return [
        ProgramRight(Right(verb="list", group=GROUP, resource=units), "see units"),
        ProgramRight(Right(verb="watch", group=GROUP, resource=units), "see units"),
        ProgramRight(
            Right(verb="patch", group=GROUP, resource=units, subresource="status"), "admit units"
        ),
        ProgramRight(
            Right(verb="list", group=GROUP, resource="queues", namespace=system), "see queues"
        ),
        ProgramRight(
            Right(
                verb="patch", group=GROUP, resource="queues", subresource="status", namespace=system
            ),
            "write the status of queues",
        ),
        ProgramRight(
            Right(verb="list", group=GROUP, resource="quotapolicies", namespace=system),
            "see what limits users",
        ),
        ProgramRight(
            Right(verb="list", group=GROUP, resource="queuereservations", namespace=system),
            "see when units must not run",
        ),
        ProgramRight(Right(verb="list", group=QUOTAS, resource="elasticquotas"), "see quotas"),
        ProgramRight(Right(verb="watch", group=QUOTAS, resource="elasticquotas"), "see quotas"),
        ProgramRight(Right(verb="list", resource="pods"), "count pods"),
        ProgramRight(Right(verb="list", resource="nodes"), "count what nodes have"),
        ProgramRight(_EVENTS, "write events"),
    ]


def _of_controllers() -> list[ProgramRight]:
    units = "queueunits"
    return [
        ProgramRight(Right(verb="create", group=GROUP, resource=units), "queue jobs"),
        ProgramRight(Right(verb="patch", group=GROUP, resource=units), "follow changes of jobs"),
        ProgramRight(Right(verb="delete", group=GROUP, resource=units), "delete units"),
        ProgramRight(
            Right(verb="patch", group=GROUP, resource=units, subresource="status"), "report pods"
        ),
        ProgramRight(Right(verb="list", resource="pods"), "count pods"),
        ProgramRight(Right(verb="list", resource="namespaces"), "see which jobs are managed"),
        ProgramRight(_EVENTS, "write events"),
    ]


_EVENTS: Final = Right(verb="create", group="events.k8s.io", resource="events")


def check_accounts(facts: Facts) -> Iterator[Finding]:
    """Yield whether the programs' service accounts have the rights that they need."""
    if not facts.may_review.is_known or part(facts.may_review.value, "allowed") is not True:
        why = facts.may_review.right or str(REVIEW)
        yield unknown("accounts", f"their rights: you may not {why}")
        return
    if not facts.accounts:
        yield unknown("accounts", "their rights: no program was found")
        return
    lacking: dict[str, list[str]] = {}
    for each in facts.accounts:
        if not each.answer.is_known:
            yield unknown("accounts", f"whether it may {each.right}: {each.answer.why_unknown()}")
        elif part(each.answer.value, "allowed") is not True:
            lacking.setdefault(each.account, []).append(f"{each.right} (to {each.why})")
    for account, rights in lacking.items():
        text = f"service account {account} may not {some(rights)}"
        fix = f"helm upgrade with rbac.create=true, or bind its ClusterRole to {account}"
        yield problem("accounts", text, fix)
    if not lacking:
        names = dict.fromkeys(each.account for each in facts.accounts)
        yield ok("accounts", f"have the rights that they need: {', '.join(names)}")
