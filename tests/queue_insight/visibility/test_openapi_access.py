"""Whatever a caller asks, it gets an object or a `Status`, and nothing of other namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_insight.visibility.openapi import BASE, document_v3
from queue_scheduler.debug_api.hiding import OF_OTHERS
from shared_api.testing.object_builders import job_body
from shared_api.well_known_labels import QUOTA_NAME
from tests.queue_insight.debug_api.drawn_requests import values
from tests.queue_insight.debug_api.posted_bodies import bodies
from tests.queue_insight.forecast.forecast_kit import renew
from tests.queue_insight.visibility.visibility_kit import (
    EVERYWHERE,
    TABLE,
    Desk,
    asking,
    refusal_of,
    units_path,
)
from tests.served_app import words_in

Json = dict[str, Any]

PATHS: Final[Json] = document_v3()["paths"]
ANN: Final = {"user": "ann"}
OTHERS: Final = ("zebra", "giraffe", "okapi")
"""Words that only objects of a namespace have that Ann may not read."""
TRIES: Final = f"{BASE}/namespaces/{{namespace}}/tries"

names = st.sampled_from(("big", "run", "team", "none")) | st.text(
    st.characters(codec="utf-8", exclude_characters="/."), min_size=1
)
forms = st.sampled_from((TABLE["accept"], "application/json", "*/*", "text/html", ""))


@pytest.fixture(scope="module")
def desk() -> Desk:
    """Of others: the unit that runs, and the first that waits."""
    desk = Desk()
    desk.add_queue("team")
    desk.add_unit("giraffe", cpu=2, namespace="zebra")
    desk.add_unit("run", cpu=1)
    desk.decide()
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "okapi", "uid": "u"}
    desk.add_unit("okapi", cpu=2, namespace="zebra", priority=5, consumerRef=job)
    desk.add_unit("big", cpu=2)
    desk.add_unit("small", cpu=1)
    desk.decide()
    renew(desk.forecasts)
    return desk


@pytest.fixture(scope="module")
def client(desk: Desk) -> Iterator[httpx.Client]:
    with asking(desk) as client:
        yield client


@pytest.mark.parametrize("path", [path for path in PATHS if path != EVERYWHERE])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_answer_names_units_of_others(
    client: httpx.Client, path: str, data: st.DataObject
) -> None:
    """The whole list takes the right to read all namespaces."""
    item = PATHS[path]
    where = path.replace("{namespace}", "default")
    where = where.replace("{name}", quote(data.draw(names), safe=""))
    keys = [
        "limit",
        "continue",
        "fieldSelector",
        "labelSelector",
        "watch",
        "includeObject",
        "changes",
    ]
    query = {key: data.draw(values) for key in keys if data.draw(st.booleans())}
    headers = ANN | {"accept": data.draw(forms)}
    if "post" in item:
        answer = client.post(where, params=query, content=data.draw(bodies("")), headers=headers)
    else:
        answer = client.get(where, params=query, headers=headers)
    assert words_in(answer, OTHERS) == []
    assert answer.status_code != 500, answer.text
    if answer.is_error:
        refusal_of(answer)


@pytest.mark.parametrize("path", [path for path in PATHS if "get" in PATHS[path]])
def test_what_is_asked_is_there(client: httpx.Client, path: str) -> None:
    """Else the test above would find nothing."""
    by_queue = path.startswith(f"{BASE}/queues")
    where = path.replace("{namespace}", "default").replace("{name}", "team" if by_queue else "big")
    for headers in (ANN, ANN | TABLE):
        answer = client.get(where, params={"changes": "true"}, headers=headers)
        assert answer.status_code == 200, answer.text
        assert words_in(answer, OTHERS) == ([] if path != EVERYWHERE else list(OTHERS[::2]))


@pytest.mark.parametrize("below", ["", "explain", "forecast"])
def test_a_name_of_another_namespace_is_not_told_by_its_absence(
    client: httpx.Client, below: str
) -> None:
    """A unit of one namespace is not found under its name in another."""
    assert refusal_of(client.get(units_path("default", "okapi", below)))[0] == 404


def test_a_tried_job_behind_one_of_others_is_not_told_its_name(client: httpx.Client) -> None:
    body = job_body("next", requests={"cpu": 2}, metadata={"labels": {QUOTA_NAME: "team"}})
    answer = client.post(TRIES.replace("{namespace}", "default"), json=body, headers=ANN)
    assert answer.status_code == 201
    assert OF_OTHERS in answer.text
    assert words_in(answer, OTHERS) == []
