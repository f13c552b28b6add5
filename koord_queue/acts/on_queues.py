"""Acts on one queue. Pure.

A queue that was made for an ElasticQuota has the annotations of that quota, and gets them back when
they are changed. It lists which ones these are. If its stop policy is among them, the quota has to
be changed; otherwise what is written on the queue stays.
"""

from __future__ import annotations

from typing import Final

from koord_queue.acts.change import Already, Change, Json, On
from shared_api.objects.queue import Queue
from shared_api.well_known_labels import (
    ALL_QUOTAS,
    COPIED_ANNOTATIONS,
    QUOTA_FULLNAME,
    STOP_POLICY,
    is_managed_queue,
    read_annotation,
    read_available_quotas,
    spellings,
)

HOLD: Final = "Hold"
DRAIN: Final = "HoldAndDrain"
NONE: Final = "None"

_OUTCOMES: Final = {HOLD: "stopped", DRAIN: "draining", NONE: "running"}
_VERB: Final = {HOLD: "stop", DRAIN: "drain", NONE: "resume"}


def set_stop_policy(queue: Queue, policy: str) -> Change | Already:
    """Return how a queue is stopped (`HOLD`, `DRAIN`), or admits units again (`NONE`)."""
    annotations = queue.metadata.annotations
    before = read_annotation(annotations, STOP_POLICY) or NONE
    if before == policy:
        return Already(outcome=f"already {_OUTCOMES[policy]}")
    # Of two spellings the newer one counts, so only taking the policy away has to name both.
    changed: dict[str, str | None] = {STOP_POLICY: policy}
    if policy == NONE:
        changed = dict.fromkeys(spellings(STOP_POLICY))
    patch: Json = {"metadata": {"annotations": changed}}
    return Change(
        on=On.QUOTA if is_from_quota(queue) else On.QUEUE,
        patch=patch,
        outcome="resumed" if policy == NONE else _OUTCOMES[policy],
        undo=(_VERB.get(before, "resume"), f"queue/{queue.metadata.name}"),
        edit={"patch": patch},
        note=_note(queue, policy),
    )


def takes_quota(queue: Queue, quota: str) -> bool:
    """Return whether a queue takes the units of a quota, as far as that can be read from it."""
    annotations = queue.metadata.annotations
    if not quota or quota == queue.metadata.name or QUOTA_FULLNAME in annotations:
        return True
    return not read_available_quotas(annotations).isdisjoint({quota, ALL_QUOTAS})


def is_from_quota(queue: Queue) -> bool:
    """Return whether the queue has its stop policy from its quota."""
    if not is_managed_queue(queue.metadata.labels):
        return False  # it is a user's now, and what is listed there is history
    listed = queue.metadata.annotations.get(COPIED_ANNOTATIONS, "")
    return STOP_POLICY in listed.split(",")


def _note(queue: Queue, policy: str) -> str:
    name, count = queue.metadata.name, queue.status.admitted
    units = "1 admitted unit" if count == 1 else f"{count} admitted units"
    match policy:
        case "HoldAndDrain":
            verb = "is" if count == 1 else "are"
            return f"{units} of queue {name} {verb} evicted"
        case "Hold" if count:
            return f"{units} of queue {name} may end; no unit starts"
        case _:
            return ""
