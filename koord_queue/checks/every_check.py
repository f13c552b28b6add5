"""All checks, in the order in which a person would look: what others depend on comes first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from koord_queue.checks.api_service import check_api_service
from koord_queue.checks.facts import Facts
from koord_queue.checks.findings import Finding
from koord_queue.checks.koordinator import check_koordinator
from koord_queue.checks.objects import (
    check_objects,
    check_queues,
    check_quota_policies,
    check_quotas,
    check_reservations,
    check_units,
)
from koord_queue.checks.pods import check_pods
from koord_queue.checks.policies import check_policies
from koord_queue.checks.programs import check_alone, check_leases, check_programs, check_versions
from koord_queue.checks.record import check_record
from koord_queue.checks.rights import check_accounts, check_rights
from koord_queue.checks.server import check_clock, check_crds, check_server
from koord_queue.checks.upstream import check_upstream

Check = Callable[[Facts], Iterator[Finding]]

CHECKS: Final[Mapping[str, Check]] = {
    "server": check_server,
    "crds": check_crds,
    "programs": check_programs,
    "alone": check_alone,
    "leases": check_leases,
    "versions": check_versions,
    "clock": check_clock,
    "rights": check_rights,
    "accounts": check_accounts,
    "policies": check_policies,
    "apiservice": check_api_service,
    "record": check_record,
    "quotas": check_quotas,
    "queues": check_queues,
    "limits": check_quota_policies,
    "windows": check_reservations,
    "objects": check_objects,
    "units": check_units,
    "pods": check_pods,
    "koordinator": check_koordinator,
    "upstream": check_upstream,
}
"""All checks by name, which their findings have as `check`."""


def look(facts: Facts, skipped: Collection[str] = ()) -> list[Finding]:
    """Return what all checks find, but those that are skipped.

    Where the API server cannot be asked, that is the only finding.
    """
    if not facts.server.is_known:
        return list(check_server(facts))
    return [
        finding for name, check in CHECKS.items() if name not in skipped for finding in check(facts)
    ]
