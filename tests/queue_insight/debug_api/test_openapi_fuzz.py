"""Whatever is asked of the routes in the contract, they answer with a code that it names."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_insight.debug_api.answers import Answers
from queue_insight.debug_api.app import build_whole_app
from queue_scheduler.debug_api.state_answers import StateAnswers
from shared_api.debug_api.access import open_access
from shared_api.testing.object_builders import job_body
from shared_api.well_known_labels import QUOTA_NAME
from tests.queue_insight.debug_api.drawn_requests import CONTRACT, PATHS, check_declared, send
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served


@pytest.mark.parametrize("path", PATHS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_route_answers_with_a_code_of_the_contract(
    busy_client: httpx.Client, path: str, data: st.DataObject
) -> None:
    """503: without the insight program."""
    check_declared(*send(busy_client, path, CONTRACT["paths"][path], data))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
def test_no_other_method_is_answered(busy_client: httpx.Client, path: str, method: str) -> None:
    if method.lower() in CONTRACT["paths"][path]:
        return
    answer = busy_client.request(method, path.replace("{", "").replace("}", ""))
    assert answer.status_code == 405
    assert answer.json() == {"detail": "Method Not Allowed"}


@pytest.mark.parametrize("path", [path for path in PATHS if "get" in CONTRACT["paths"][path]])
def test_before_anything_is_known_answers_are_clear(path: str) -> None:
    """As in a scheduler that fills its caches, or in a cluster without quotas."""
    answers = Answers(StateAnswers(ShellKit().shared, lambda: False))
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        answer = client.get(path.replace("{namespace}", "default").replace("{name}", "team"))
    needs_insight = path.endswith("/forecast") or path in {"/debug/insight", "/debug/log"}
    # Accounts are not kept.
    is_unknown = "{name}" in path or path in {"/debug/accounts", "/debug/report"}
    want = 503 if needs_insight else 404 if is_unknown else 200
    assert answer.status_code == want
    check_declared(answer, CONTRACT["paths"][path]["get"])


def test_without_a_quota_a_job_is_told_what_it_lacks() -> None:
    answers = Answers(StateAnswers(ShellKit().shared, lambda: False))
    body = job_body("train", requests={"cpu": 1}, metadata={"labels": {QUOTA_NAME: "lost"}})
    with served(build_whole_app(answers, open_access, (), "0.0.0")) as client:
        answer = client.post("/debug/try", json=body)
    (job,) = answer.raise_for_status().json()["jobs"]
    assert (answer.json()["leader"], job["startsNow"]) == (False, False)
    assert job["summary"].endswith("no quota: lost does not exist.")
