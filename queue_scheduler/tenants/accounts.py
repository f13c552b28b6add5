"""Accounts: whom a charge is counted for."""

from __future__ import annotations

from typing import NamedTuple

from shared_api.objects.queue_unit import QueueUnit
from shared_api.submitters import read_submitter


class Account(NamedTuple):
    """What a charge is counted for; charges with equal fields are added up.

    Attributes:
        quota: The quota that is charged; its ancestors follow from the tree.
        queue: The queue that the unit waits in, or was admitted through; "": none is known.
        namespace: The unit's namespace; of pods without a unit, theirs.
        group: The group that was named at submission; "": none.
        user: Who submitted it (`shared_api.submitters`), or `namespace:NS` if nobody is known.
    """

    quota: str
    queue: str
    namespace: str
    group: str
    user: str


def account_of_unit(unit: QueueUnit, quota: str, queue: str, *, are_proved: bool) -> Account:
    """Return the account of a unit that is charged to a quota through a queue.

    Args:
        unit: The unit's object.
        quota: The quota that is charged.
        queue: The unit's queue; "": none is known.
        are_proved: Whether the API server proves who submitted a job.
    """
    meta = unit.metadata
    user, group = read_submitter(
        meta.namespace, meta.labels, meta.annotations, are_proved=are_proved
    )
    return Account(quota, queue, meta.namespace, group, user)
