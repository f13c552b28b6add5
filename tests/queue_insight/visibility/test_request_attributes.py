"""What a request would do, by its method, path and query."""

from __future__ import annotations

import pytest

from queue_insight.visibility.request_attributes import RequestTarget, right_of
from shared_api.authorization.rights import PathRight, ResourceRight

BASE = "/apis/visibility.koord-queue/v1alpha1"
TEAM = f"{BASE}/namespaces/team"


def right(
    verb: str, resource: str, *, namespace: str = "", name: str = "", subresource: str = ""
) -> ResourceRight:
    return ResourceRight(
        verb=verb,
        group="visibility.koord-queue",
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


UNITS = "pendingunits"
LIST_ALL = right("list", UNITS)
LIST_TEAM = right("list", UNITS, namespace="team")
GET_A = right("get", UNITS, namespace="team", name="a")
LIST_A = right("list", UNITS, namespace="team", name="a")
WATCH_TEAM = right("watch", UNITS, namespace="team")
EXPLAIN_A = right("get", UNITS, namespace="team", name="a", subresource="explain")


@pytest.mark.parametrize(
    ("method", "target", "want"),
    [
        pytest.param("GET", f"{BASE}/{UNITS}", LIST_ALL, id="a list of all namespaces"),
        pytest.param("GET", f"{TEAM}/{UNITS}?limit=5", LIST_TEAM, id="a list of a namespace"),
        pytest.param("GET", f"{TEAM}/{UNITS}/", LIST_TEAM, id="a slash at the end"),
        pytest.param("GET", f"{TEAM}/{UNITS}/a", GET_A, id="an object"),
        pytest.param("HEAD", f"{TEAM}/{UNITS}/a", GET_A, id="its head"),
        pytest.param("GET", f"{TEAM}/pendingunits%2Fa", GET_A, id="an escaped slash"),
        pytest.param("GET", f"{TEAM}/{UNITS}/a/explain", EXPLAIN_A, id="a subresource"),
        pytest.param("GET", f"{TEAM}/{UNITS}?watch=true", WATCH_TEAM, id="a watch"),
        pytest.param("GET", f"{TEAM}/{UNITS}?watch=", WATCH_TEAM, id="a watch without a value"),
        pytest.param("GET", f"{TEAM}/{UNITS}?watch=0", LIST_TEAM, id="no watch"),
        pytest.param("GET", f"{TEAM}/{UNITS}/a?watch=1", GET_A, id="a get is no watch"),
        pytest.param(
            "GET",
            f"{TEAM}/{UNITS}?fieldSelector=metadata.name%3Da",
            LIST_A,
            id="one name of a list",
        ),
        pytest.param(
            "GET", f"{BASE}/watch/namespaces/team/{UNITS}", WATCH_TEAM, id="the old path of a watch"
        ),
        pytest.param(
            "POST", f"{TEAM}/tries", right("create", "tries", namespace="team"), id="a try"
        ),
        pytest.param(
            "DELETE",
            f"{TEAM}/{UNITS}",
            right("deletecollection", UNITS, namespace="team"),
            id="a delete of all",
        ),
        pytest.param(
            "GET",
            f"{BASE}/queues/q/{UNITS}",
            right("get", "queues", name="q", subresource=UNITS),
            id="the line of a queue",
        ),
        pytest.param(
            "GET", TEAM, right("get", "namespaces", namespace="team", name="team"), id="a namespace"
        ),
        pytest.param("GET", "/apis", PathRight("/apis"), id="all groups"),
        pytest.param("GET", BASE, PathRight(BASE), id="the resources of the version"),
        pytest.param("POST", "/", PathRight("/", "post"), id="a post to a path"),
        pytest.param("GET", "/openapi/v3/a/b/c", PathRight("/openapi/v3/a/b/c"), id="a long path"),
    ],
)
def test_the_right_that_a_request_needs(
    method: str, target: str, want: ResourceRight | PathRight
) -> None:
    assert right_of(method, RequestTarget.of(target)) == want
