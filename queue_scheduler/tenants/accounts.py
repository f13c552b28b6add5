"""Accounts: whom a charge is counted for."""

from __future__ import annotations

from typing import NamedTuple


class Account(NamedTuple):
    """Whom a charge is counted for; charges with equal fields are added up.

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
