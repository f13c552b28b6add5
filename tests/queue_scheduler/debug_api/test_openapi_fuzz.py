"""Whatever is asked of the routes in the contract, they answer with a code that it names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_scheduler.debug_api.app import DebugApi, build_app
from queue_scheduler.debug_api.openapi import CONTRACT_FILE
from queue_scheduler.setup.quota_readers import QUOTA_READERS
from shared_api.debug_api.access import open_access
from tests.queue_scheduler.debug_api.posted_bodies import bodies
from tests.queue_scheduler.shell_kit import ShellKit
from tests.served_app import served

CONTRACT: Final[dict[str, Any]] = json.loads(CONTRACT_FILE.read_text(encoding="utf-8"))
KNOWN: Final = ("default", "team", "run", "big")
"""Names of the objects that exist; `/` and `.` would be another path."""

names = st.sampled_from(KNOWN) | st.text(
    st.characters(codec="utf-8", exclude_characters="/."), min_size=1
)
values = st.one_of(st.integers(-(2**70), 2**70).map(str), st.booleans().map(str), st.text())


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    kit = ShellKit()
    kit.add_quota("team", 4)
    kit.add_unit("run", cpu=3)
    kit.dequeue()
    kit.add_unit("big", cpu=2)
    kit.decide()
    api = DebugApi(kit.shared, QUOTA_READERS, lambda: True)
    with served(build_app(api, open_access, (), "0.0.0")) as client:
        yield client


@pytest.mark.parametrize("path", sorted(CONTRACT["paths"]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_route_answers_with_a_code_of_the_contract(
    client: httpx.Client, path: str, data: st.DataObject
) -> None:
    (method, operation), *others = CONTRACT["paths"][path].items()
    assert (method in {"get", "post"}, others) == (True, [])
    where, query = path, {}
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "path":
            where = where.replace(f"{{{name}}}", quote(data.draw(names), safe=""))
        elif data.draw(st.booleans()):
            query[name] = data.draw(values)
    if method == "get":
        answer = client.get(where, params=query)
    else:
        kind = data.draw(st.sampled_from((*operation["requestBody"]["content"], "text/plain")))
        body = data.draw(bodies(path))
        answer = client.post(where, params=query, content=body, headers={"content-type": kind})
    assert answer.status_code != 500, answer.text  # 503: without insight
    assert str(answer.status_code) in operation["responses"], answer.text
    assert answer.headers["content-type"] == "application/json"
    answer.json()
