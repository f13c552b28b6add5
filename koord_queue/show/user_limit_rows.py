"""What users and groups have in quotas as rows of a table: one for each limit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from koord_queue.answers.quotas import UserLimit

USER_COLUMNS: Final = ("QUOTA", "USER", "GROUP", "RESOURCE", "USED", "LIMIT", "POLICY")

RUNNING: Final = "running units"


def user_rows(limits: Iterable[UserLimit], resource: str | None = None) -> Iterator[list[str]]:
    """Yield a row for each limit.

    Args:
        limits: What users and groups have.
        resource: Only this one; None: all, and the number of running units.
    """
    for each in limits:
        who = ["", each.name] if each.is_group else [each.name, ""]
        entry = f"{each.policy}[{each.entry}]"
        for name, limit in each.max.items():
            if resource in {None, name}:
                yield [each.quota, *who, name, each.used.get(name, "0"), limit, entry]
        if each.max_running is not None and resource is None:
            running, limit = str(each.running), str(each.max_running)
            yield [each.quota, *who, RUNNING, running, limit, entry]
