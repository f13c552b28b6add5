"""Objects as the API server has them, and what is said of those that cannot be shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from queue_insight.page.manifests import read_manifest
from shared_api.client.errors import AnswerTooLarge
from tests.queue_insight.page.visitor_kit import Answer, PlayedApi

PATH = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/koord-queue/queues/team"


def read_from(api: PlayedApi) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_manifest(lambda: api.client().get_raw(PATH)))
    return found


def test_a_large_object_is_passed_on_whole() -> None:
    spec = {"podSet": [{"name": f"p{n}", "text": "<script>" * 20} for n in range(9_000)]}
    api = PlayedApi({PATH: {"metadata": {"name": "a"}, "spec": spec}})
    assert read_from(api)["manifest"]["spec"] == spec


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(b"[" * 100_000, "cannot be read", id="deeper than a stack"),
        pytest.param(
            b'{"metadata": {}, "spec": ' + b'{"a":' * 70 + b"1" + b"}" * 71,
            "cannot be read",
            id="nested deep",
        ),
        pytest.param(b"<html>", "cannot be read", id="a proxy's page"),
        pytest.param(b'{"spec": {}}', "cannot be read", id="without metadata"),
        pytest.param(b'"\xff"', "cannot be read", id="no UTF-8"),
        pytest.param(AnswerTooLarge("", sent=True), "more than 4 MiB", id="too large"),
    ],
)
def test_what_cannot_be_shown_is_said(answer: Answer, want: str) -> None:
    got = read_from(PlayedApi({PATH: answer}))
    assert got["manifest"] is None
    assert want in got["problem"]
