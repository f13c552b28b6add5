"""What is kept of cached pods."""

from __future__ import annotations

import msgspec

from queue_scheduler.setup.pod_trimming import pod_trimmer
from shared_api.objects.pod import Pod


def decoded(*conditions: dict[str, str]) -> Pod:
    status = {"phase": "Pending", "conditions": list(conditions)}
    return msgspec.json.decode(msgspec.json.encode({"status": status}), type=Pod)


READY = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}


def test_only_the_verdict_about_binding_is_kept_and_shared() -> None:
    trim = pod_trimmer()
    first, second = trim(decoded(READY, REFUSED), None), trim(decoded(REFUSED, READY), None)
    assert [(each.type, each.reason) for each in first.status.conditions] == [
        ("PodScheduled", "Unschedulable")
    ]
    assert first.status is second.status


def test_a_pod_that_nobody_has_tried_has_no_verdict() -> None:
    trim = pod_trimmer()
    before = trim(decoded(REFUSED), None)
    assert trim(decoded(READY), before).status.conditions == ()
    assert before.scheduled is not None, "a version that is already stored does not change"
    assert trim(decoded(), None).scheduled is None
