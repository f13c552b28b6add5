"""Which form of an answer is asked for."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from queue_insight.visibility.formats import wants_table
from queue_insight.visibility.statuses import StatusError
from tests.queue_insight.visibility.visibility_kit import TABLE


def asks(accept: str | None) -> bool:
    """Return whether a table is asked for."""
    headers = [] if accept is None else [(b"accept", accept.encode())]
    return wants_table(Request({"type": "http", "headers": headers}))


@pytest.mark.parametrize(
    ("accept", "want"),
    [
        pytest.param(None, False, id="nothing is said"),
        pytest.param("application/json", False, id="JSON"),
        pytest.param("application/json, */*", False, id="kubectl get --raw"),
        pytest.param(TABLE["accept"], True, id="kubectl get"),
        pytest.param(
            "application/json; as=Table; g=meta.k8s.io; v=v1; charset=utf-8", True, id="with spaces"
        ),
        pytest.param(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            False,
            id="a table of a version that is not offered",
        ),
        pytest.param("application/vnd.kubernetes.protobuf,application/json", False, id="client-go"),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            False,
            id="metadata alone, or JSON",
        ),
    ],
)
def test_the_first_form_that_there_is_counts(accept: str | None, want: bool) -> None:
    assert asks(accept) is want


@pytest.mark.parametrize(
    "accept", ["application/yaml", "application/json;as=Table;g=other;v=v1", "text/html", ";,"]
)
def test_other_forms_are_refused(accept: str) -> None:
    with pytest.raises(StatusError) as raised:
        asks(accept)
    assert raised.value.code.value == 406
