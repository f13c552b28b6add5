"""Why a unit waits.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Refusal(Answer, frozen=True):
    """Why a unit waits: the reason, the numbers, and both in words.

    `quota_namespace` is set if several quotas have the name: the namespace of the one that counts.
    `as_of` is when this was found, at the unit's last decision; "" if it is current.
    """

    reason: str = ""
    message: str = ""
    quota: str = ""
    quota_namespace: str = ""
    resource: str = ""
    limit: str = ""
    used: str = ""
    requested: str = ""
    missing: str = ""
    other: str = ""
    as_of: str = ""
