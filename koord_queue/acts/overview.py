"""All acts: what each changes, which right that takes, and what undoes it.

docs/command-line.md has this table; tests hold both against the code.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from koord_queue.acts.change import On

JOB_RIGHT: Final = "`patch` on the kind of the job"
UNIT_RIGHT: Final = "`patch` on `queueunits`"
STATUS_RIGHT: Final = "`patch` on `queueunits/status`"
QUEUE_RIGHT: Final = "`patch` on `queues`"
QUOTA_RIGHT: Final = "`patch` on `elasticquotas`"


class Row(NamedTuple):
    """One act on one kind of object.

    Attributes:
        act: The command.
        on: The object that is changed.
        changes: The field or annotation.
        right: What the caller must be allowed.
        undo: The command that undoes it.
    """

    act: str
    on: On
    changes: str
    right: str
    undo: str


ROWS: Final = (
    Row(
        "priority",
        On.JOB,
        "annotation `scheduling.x-k8s.io/priority`",
        JOB_RIGHT,
        "`priority --to` the old one, or `--reset`",
    ),
    Row("priority", On.UNIT, "`spec.priority`", UNIT_RIGHT, "`priority --to` the old one"),
    Row("move", On.JOB, "label `koord-queue/queue-name`", JOB_RIGHT, "`move --to` the old queue"),
    Row(
        "move",
        On.UNIT,
        "`spec.queue`, and label `koord-queue/queue-name`",
        UNIT_RIGHT,
        "`move --to` the old queue",
    ),
    Row("hold", On.JOB, "annotation `koord-queue/block-for-test`", JOB_RIGHT, "`release`"),
    Row("hold", On.UNIT, "annotation `koord-queue/block-for-test`", UNIT_RIGHT, "`release`"),
    Row("release", On.JOB, "removes that annotation", JOB_RIGHT, "`hold`"),
    Row("release", On.UNIT, "removes that annotation", UNIT_RIGHT, "`hold`"),
    Row(
        "deactivate",
        On.JOB,
        'annotation `scheduling.x-k8s.io/active`: `"false"`',
        JOB_RIGHT,
        "`activate`",
    ),
    Row("deactivate", On.UNIT, "`spec.active: false`", UNIT_RIGHT, "`activate`"),
    Row("activate", On.JOB, 'that annotation: `"true"`', JOB_RIGHT, "`deactivate`"),
    Row("activate", On.UNIT, "`spec.active: true`", UNIT_RIGHT, "`deactivate`"),
    Row(
        "requeue",
        On.UNIT_STATUS,
        "condition `Evicted`, reason `RequeueRequested`",
        STATUS_RIGHT,
        "nothing: it starts in its turn",
    ),
    Row("stop", On.QUEUE, "annotation `koord-queue/stop-policy`: `Hold`", QUEUE_RIGHT, "`resume`"),
    Row("drain", On.QUEUE, "that annotation: `HoldAndDrain`", QUEUE_RIGHT, "`resume`"),
    Row("resume", On.QUEUE, "removes that annotation", QUEUE_RIGHT, "`stop` or `drain`"),
    Row(
        "stop, drain, resume",
        On.QUOTA,
        "the same, if the quota has the annotation",
        QUOTA_RIGHT,
        "as above",
    ),
)
