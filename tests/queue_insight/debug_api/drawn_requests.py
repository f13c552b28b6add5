"""Requests that are drawn from a contract: its paths, parameters, and bodies of all sorts."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

import httpx
from hypothesis import strategies as st

from queue_insight.debug_api.openapi import CONTRACT_FILE
from tests.queue_insight.debug_api.posted_bodies import bodies

Json = dict[str, Any]

CONTRACT: Final[Json] = json.loads(CONTRACT_FILE.read_text(encoding="utf-8"))
PATHS: Final = sorted(CONTRACT["paths"])
TIMES: Final = (
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-11-01T10:00:00Z",
    "2026-11-01T10:00:00", "5", "-1e300", "1e15", "inf", "nan", "yesterday", "",
)  # fmt: skip
KNOWN: Final = ("default", "team", "run", "big")
"""Names of objects that exist; `/` and `.` would be another path."""

names = st.sampled_from(KNOWN) | st.text(
    st.characters(codec="utf-8", exclude_characters="/."), min_size=1
)
values = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from((*TIMES, *KNOWN, "true", "default/run", "OverQuotaMax")),
    st.text(),
)


def send(
    client: httpx.Client, path: str, operations: Json, data: st.DataObject, *times: str
) -> tuple[httpx.Response, Json]:
    """Send a request to a path of a contract; return the answer and the path's operation.

    Args:
        client: Whom to send it with.
        path: The path, with its parameters in braces.
        operations: What the contract has for it: one method.
        data: Draws all else.
        times: Times that the server may know something about.
    """
    ((method, operation),) = operations.items()
    assert method in {"get", "post"}
    where, query = path, {}
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "path":
            where = where.replace(f"{{{name}}}", quote(data.draw(names), safe=""))
        elif data.draw(st.booleans()):
            known = times if name in {"at", "since"} else ()
            query[name] = data.draw(st.sampled_from(known) | values if known else values)
    if method == "get":
        return client.get(where, params=query), operation
    kind = data.draw(st.sampled_from((*operation["requestBody"]["content"], "text/plain")))
    body, headers = data.draw(bodies(path)), {"content-type": kind}
    return client.post(where, params=query, content=body, headers=headers), operation


def check_declared(answer: httpx.Response, operation: Json) -> None:
    """Check that an answer is one that its contract names, and no failure of the server."""
    assert answer.status_code != 500, answer.text
    assert str(answer.status_code) in operation["responses"], answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.status_code == 200 or answer.json()["detail"]
