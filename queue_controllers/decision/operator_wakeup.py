"""When the operator of a released job is woken that does not act on it. Pure.

Some operators wait for events of pods that they believe to have created, and reconcile again only
after minutes; any change of the object makes them reconcile at once. So a released job without pods
is touched: an annotation says when. The first time after its kind's `nudge_seconds`, then after
twice as long each time, at most every ten minutes; an operator that is down is not hurried.

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
"""Between two touches: twice as long as KubeRay takes to reconcile by itself."""


def plan_nudge(
    view: JobView, job: JobFacts, state: JobState
) -> tuple[tuple[Action, ...], float | None]:
    """Return the touch if it is due, and in how many seconds the next one is; None: no next one.

    `job` has been released, and its unit is not in Running.
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
