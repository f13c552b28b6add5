"""Templates of which no pod can be created, in tables; a real API server is asked the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_controllers.decision.pod_admission import NOTHING_READ, apply_pod_admission
from queue_controllers.decision.pod_validation import why_invalid
from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from shared_api.well_known_labels import MAX_REFUSAL_CHARS
from tests.job_situations import facts
from tests.pod_templates import ACCEPTED, REFUSED, amounts, template

Json = dict[str, Any]


def read(body: Json) -> ScheduledPodTemplate:
    return msgspec.convert(body, ScheduledPodTemplate)


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_a_pod_may_have_is_not_held(body: Json) -> None:
    assert why_invalid(read(body)) == ""


@pytest.mark.parametrize(("body", "want"), REFUSED.values(), ids=REFUSED.keys())
def test_what_no_pod_may_have_is_named(body: Json, want: str) -> None:
    got = why_invalid(read(body))
    assert want in got
    assert len(got) < MAX_REFUSAL_CHARS


def test_init_containers_are_judged_too() -> None:
    body = template(initContainers=[{"name": "A", "image": "none"}])
    assert "container 'A'" in why_invalid(read(body))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(template(name=""), id="an operator may name the container"),
        pytest.param(
            template(container=amounts({"cpu": "x"}, {"cpu": "1"})),
            id="an amount that cannot be read is reported as the demand's",
        ),
        pytest.param(
            template(container=amounts({"example.com/gpu": "1"}, {})),
            id="a webhook may set the limit of a device",
        ),
    ],
)
def test_what_others_may_complete_is_not_judged(body: Json) -> None:
    assert why_invalid(read(body)) == ""


def of_job(body: Json, **pod_set: Any) -> Any:
    job = facts()
    changed = msgspec.structs.replace(job.pod_sets[0], template=read(body), **pod_set)
    return msgspec.structs.replace(job, pod_sets=(changed,))


OVER = template(container=amounts({"cpu": "2"}, {"cpu": "1"}))


@pytest.mark.parametrize(
    ("job", "is_refused"),
    [
        pytest.param(of_job(template({"a b": "x"})), True, id="a label"),
        pytest.param(of_job(OVER), True, id="a request above its limit"),
        pytest.param(of_job(OVER, has_limits=False), False, id="an operator sets the limits"),
        pytest.param(of_job(template({"a b": "x"}), has_limits=False), True, id="but not labels"),
        pytest.param(of_job(template({"a b": "x"}), is_sum=True), False, id="no pod is made of it"),
    ],
)
def test_a_job_of_such_a_template_is_held_without_any_object(job: Any, is_refused: bool) -> None:
    assert bool(apply_pod_admission(job, NOTHING_READ).pods_refused) == is_refused
