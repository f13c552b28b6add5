"""When an operator that seems to have forgotten a released job is woken. Pure.

Some operators wait for news of pods that they believe to have made, and look again only after
minutes; any change of the object has them look at once. So a released job that brings no pod is
touched: an annotation says when. The first time after what its kind says (`nudge_seconds`), then
after twice as long each time, at most every ten minutes; an operator that is down is not hurried.

When to touch again follows from the times of the release and of the last touch, which stand on the
job. So a restart neither forgets nor repeats one.
"""

from __future__ import annotations

from typing import Final

from queue_controllers.decision.actions import Action, EventType, RecordJobEvent, TouchJob
from queue_controllers.decision.job_state import JobState, State
from queue_controllers.decision.job_view import JobView
from queue_controllers.jobframework.generic_job import JobFacts

MAX_PAUSE_SECONDS: Final = 600.0
"""Between two touches: twice as long as KubeRay takes to look by itself."""


def plan_nudge(
    view: JobView, job: JobFacts, state: JobState
) -> tuple[tuple[Action, ...], float | None]:
    """Return what wakes the operator if that is due, and in how many seconds it will be; or None.

    `job` has been released, and its unit does not say that it runs.
    """
    seconds, released_at = job.kind.nudge_seconds, job.released_at
    is_waiting = state.state is State.STARTING and not view.pods.total and view.ownership.managed
    if seconds is None or released_at is None or not is_waiting:
        return (), None
    touched_at = job.touched_at
    if touched_at is None or touched_at < released_at:
        due, is_first = seconds, True
    else:
        # 30, 90, 210 s ... after the release: each pause is as long as all before, and one more.
        passed = (touched_at - released_at).total_seconds()
        due, is_first = passed + min(passed + seconds, MAX_PAUSE_SECONDS), False
    rest = due - (view.moment.wall - released_at).total_seconds()
    if rest > 0:
        return (), rest
    touch = TouchJob(touched_at=view.moment.exact_stamp)
    if not is_first:
        return (touch,), None
    message = (
        f"Resumed {seconds:g} s ago, it has no pod yet: it is touched, so that its operator looks"
        " at it again"
    )
    return (
        touch,
        RecordJobEvent(reason="NoPodsYet", message=message, type=EventType.WARNING),
    ), None
