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
