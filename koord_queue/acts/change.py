"""A change of one object, or that nothing has to be changed."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from shared_api.objects.meta import ObjectMeta, WireStruct
from shared_api.objects.queue_unit import QueueUnit

Json = dict[str, Any]


class On(Enum):
    """The object that an act changes."""

    JOB = "the job"
    UNIT = "the unit"
    UNIT_STATUS = "the status of the unit"
    QUEUE = "the queue"
    QUOTA = "the quota of the queue"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What an act changes.

    Attributes:
        on: The object.
        patch: The JSON merge patch of it.
        outcome: The result in a few words, as it is printed: "on hold".
        undo: Arguments of the program that undo it; empty if nothing can.
        edit: What it comes to for the unit or queue, as a what-if edit without its name.
        note: What the user should know in addition, as a sentence; "" if nothing.
        is_guarded: Whether the patch counts only for the object that was read.
        counts: Whether the unit is as it should be by now, once the controllers have carried over
            what its job says; None if nothing is carried over.
    """

    on: On
    patch: Json
    outcome: str
    undo: tuple[str, ...] = ()
    edit: Json
    note: str = ""
    is_guarded: bool = False
    counts: Callable[[QueueUnit], bool] | None = None


class Already(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing has to be changed; `outcome` is how it is: "already on hold"."""

    outcome: str


class AnyObject(WireStruct, frozen=True):
    """An object of any kind, as far as acts read it."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What an act is about.

    Attributes:
        named: How the user names it: "job/train-1".
        unit: The unit.
        job: Its job; None if the unit has none that could be changed.
    """

    named: str
    unit: QueueUnit
    job: AnyObject | None = None
