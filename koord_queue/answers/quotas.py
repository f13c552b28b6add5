"""Quotas with their numbers.

Generated from the contract of the debug API by `make openapi`; edits are lost.
"""

from __future__ import annotations

from koord_queue.answers.decoding import Answer


class Quota(Answer, frozen=True):
    """One quota of the tree; a key missing in `limits` is unlimited."""

    name: str = ""
    namespace: str = ""
    parent: str = ""
    is_parent: bool = False
    lends: bool = False
    usable: bool = False
    min: dict[str, str] = {}
    scaled_min: dict[str, str] | None = None
    max: dict[str, str] = {}
    runtime: dict[str, str] = {}
    limits: dict[str, str] = {}
    used: dict[str, str] = {}
    charged: dict[str, str] | None = None
    foreign: dict[str, str] = {}
    demand: dict[str, str] = {}
    request: dict[str, str] = {}
    protected: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    children: tuple[Quota, ...] = ()


class QuotaTreePage(Answer, frozen=True):
    """All quota trees, roots first.

    `problems`: the plugins whose quotas are not among them, and what is wrong with QuotaPolicies.
    """

    leader: bool = False
    items: tuple[Quota, ...] = ()
    problems: tuple[str, ...] = ()


class UserLimit(Answer, frozen=True):
    """What one user, or the members of a group, have in a quota and below it.

    `name` is `*` for all groups that no entry names, together. `max` has what is limited, `used`
    the same resources; `max_running` is null where the number of admitted units is not limited.
    `entry` is the place in the `userLimits` of the QuotaPolicy `policy`, from 0.
    """

    quota: str = ""
    is_group: bool = False
    name: str = ""
    policy: str = ""
    entry: int = 0
    max: dict[str, str] = {}
    used: dict[str, str] = {}
    max_running: int | None = None
    running: int = 0


class UserLimitPage(Answer, frozen=True):
    """Who has how much of what is limited, by quota; who has nothing is in no row.

    `others` counts those that the caller may not read.
    """

    leader: bool = False
    total: int = 0
    offset: int = 0
    limit: int = 0
    items: tuple[UserLimit, ...] = ()
    others: int = 0
