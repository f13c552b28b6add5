"""Lists and watches: pages, selectors, versions, bookmarks."""

from __future__ import annotations

import pytest

from shared_api.informer.reflector import BOOKMARK_WATCH_SECONDS
from tests.contracts.api_server.server_under_test import (
    EVENTUALLY_SECONDS,
    Api,
    Json,
    claim,
    config_map,
)
from tests.waiting import until


def make(api: Api, *names: str) -> None:
    """Create claims, labeled with their index."""
    for i, name in enumerate(names):
        api.create(api.claims, claim(name, labels={"n": str(i), "name": name}, priority=i))


# ----------------------------------------------------------------------------------------- lists


def test_a_list_is_sorted_and_carries_a_version(api: Api) -> None:
    make(api, "c", "a", "b")
    answer = api.get(api.claims)
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b", "c"]
    assert answer["kind"] == "ClaimList"
    newest = max(int(item["metadata"]["resourceVersion"]) for item in answer["items"])
    assert int(answer["metadata"]["resourceVersion"]) >= newest


def test_list_items_of_built_in_kinds_have_no_kind(api: Api) -> None:
    make(api, "a")
    api.create(api.config_maps, config_map("b"))
    assert "kind" in api.get(api.claims)["items"][0]
    assert all("kind" not in item for item in api.get(api.config_maps)["items"])


def test_all_pages_are_of_one_version(api: Api) -> None:
    make(api, "a", "b", "c", "d", "e")
    first = api.get(api.claims, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    api.ask("DELETE", f"{api.claims}/d")
    api.create(api.claims, claim("cc"))
    api.merged(f"{api.claims}/e", {"spec": {"queue": "new"}})
    seen, page = [], first
    while True:
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        seen += [(item["metadata"]["name"], item["spec"]["queue"]) for item in page["items"]]
        token = page["metadata"].get("continue")
        if not token:
            break
        page = api.get(api.claims, **{"limit": "2", "continue": token})
    assert seen == [(name, "aa") for name in "abcde"]


def test_all_namespaces_can_be_listed_at_once(api: Api) -> None:
    make(api, "a")
    everywhere = api.get(api.claims.replace(f"/namespaces/{api.namespace}", ""))
    namespaces = {item["metadata"]["namespace"] for item in everywhere["items"]}
    assert api.namespace in namespaces


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("n=1", ["b"], id="equal"),
        pytest.param("n==1", ["b"], id="double equal"),
        pytest.param("n!=1", ["a", "c", "none"], id="unequal includes those without it"),
        pytest.param("n in (0,2)", ["a", "c"], id="in"),
        pytest.param("n notin (0,2)", ["b", "none"], id="notin"),
        pytest.param("n", ["a", "b", "c"], id="exists"),
        pytest.param("!n", ["none"], id="does not exist"),
        pytest.param("n in (0,1),name!=a", ["b"], id="all must hold"),
        pytest.param("", ["a", "b", "c", "none"], id="empty"),
    ],
)
def test_label_selectors(api: Api, selector: str, names: list[str]) -> None:
    make(api, "a", "b", "c")
    api.create(api.claims, claim("none"))
    assert api.names(api.claims, labelSelector=selector) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        pytest.param("metadata.name=b", ["b"], id="name"),
        pytest.param("metadata.name!=b", ["a", "c"], id="not this name"),
        pytest.param("spec.queue=zz", ["c"], id="a selectable field of the CRD"),
        pytest.param("status.phase=Enqueued", ["a", "b", "c"], id="a defaulted field"),
        pytest.param("spec.queue=aa,metadata.name=a", ["a"], id="both"),
    ],
)
def test_field_selectors(api: Api, selector: str, names: list[str]) -> None:
    make(api, "a", "b", "c")
    api.merged(f"{api.claims}/c", {"spec": {"queue": "zz"}})
    assert api.names(api.claims, fieldSelector=selector) == names


def test_a_quiet_watch_of_three_seconds_says_how_far_the_server_is(api: Api) -> None:
    """So a new leader learns that nothing was written since, without a list of it."""
    make(api, "a")
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    api.create(api.config_maps, {"metadata": {"name": "elsewhere"}})
    newest = api.get(api.claims, limit="1")["metadata"]["resourceVersion"]
    assert int(newest) > int(version)
    query = {"resourceVersion": version, "allowWatchBookmarks": "true"}
    with api.watch(api.claims, timeoutSeconds=str(BOOKMARK_WATCH_SECONDS), **query) as watch:
        bookmark = watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(newest)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        pytest.param({"fieldSelector": "spec.priority=1"}, 400, id="field not selectable"),
        pytest.param({"labelSelector": "a frob b"}, 400, id="label selector"),
        pytest.param({"limit": "x"}, 400, id="limit"),
        pytest.param({"continue": "xyz"}, 400, id="continue token"),
        pytest.param({"resourceVersion": "x"}, 400, id="version"),
        pytest.param({"resourceVersion": "99999999"}, 504, id="future version"),
        pytest.param({"resourceVersionMatch": "Exact"}, 422, id="match without a version"),
        pytest.param(
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"}, 422, id="exactly any"
        ),
    ],
)
def test_a_list_refuses(api: Api, query: dict[str, str], status: int) -> None:
    assert api.ask("GET", api.claims, query=query).status == status


def test_a_list_at_an_exact_version_returns_the_state_then(api: Api) -> None:
    make(api, "a")
    then = api.get(api.claims)["metadata"]["resourceVersion"]
    make(api, "b")
    api.ask("DELETE", f"{api.claims}/a")
    exact = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    assert api.names(api.claims, **exact) == ["a"]
    not_older = {"resourceVersion": then, "resourceVersionMatch": "NotOlderThan"}
    # These may be of any later version: the server's cache is updated with a delay.
    until(lambda: api.names(api.claims, **not_older) == ["b"], EVENTUALLY_SECONDS)
    until(lambda: api.names(api.claims, resourceVersion="0") == ["b"], EVENTUALLY_SECONDS)
    until(lambda: api.names(api.claims, resourceVersion=then) == ["b"], EVENTUALLY_SECONDS)
    assert api.names(api.claims, resourceVersion=then, limit="5") == ["a"]


# --------------------------------------------------------------------------------------- watches


def test_a_watch_gets_the_changes_after_its_version(api: Api) -> None:
    make(api, "before")
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    make(api, "missed")
    with api.watch(api.claims, resourceVersion=version) as watch:
        assert watch.take(1) == [("ADDED", "missed")]
        api.merged(f"{api.claims}/before/status", {"status": {"phase": "Running"}})
        api.ask("DELETE", f"{api.claims}/before")
        modified, deleted = watch.next(), watch.next()
        assert (modified["type"], deleted["type"]) == ("MODIFIED", "DELETED")
        assert modified["object"]["status"]["phase"] == "Running"
        versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in (modified, deleted)]
        assert versions[0] < versions[1]
        make(api, "next")
        assert watch.take(1) == [("ADDED", "next")], "and nothing else in between"


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_without_a_version_gets_all_objects(api: Api, version: str) -> None:
    make(api, "a", "b")
    query = {"resourceVersion": version} if version else {}
    with api.watch(api.claims, **query) as watch:
        assert sorted(watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        make(api, "c")
        assert watch.take(1) == [("ADDED", "c")]


def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    make(api, "a")
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    with api.watch(api.claims, **query) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        bookmark = watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > 0


def test_a_watch_that_is_too_old_gets_an_error_event(api: Api) -> None:
    with api.watch(api.claims, resourceVersion="1") as watch:
        assert watch.stream.status == 200
        event = watch.next()
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert watch.next() is None


def test_a_watch_ends_in_order_at_its_timeout(api: Api) -> None:
    with api.watch(api.claims, timeoutSeconds="1") as watch:
        assert watch.next() is None


@pytest.mark.parametrize(
    ("query", "status"),
    [
        pytest.param({"resourceVersion": "x"}, 500, id="version"),
        pytest.param({"labelSelector": "a frob b"}, 400, id="label selector"),
        pytest.param({"sendInitialEvents": "true"}, 422, id="initial events without a match"),
    ],
)
def test_a_watch_refuses(api: Api, query: dict[str, str], status: int) -> None:
    with api.watch(api.claims, **query) as watch:
        assert watch.stream.status == status


def seen_by(api: Api, query: dict[str, str], *patches: Json) -> list[tuple[str, str]]:
    """Return the events of a watch with a selector while a claim is patched: type and queue."""
    with api.watch(api.claims, **query) as watch:
        for patch in patches:
            api.merged(f"{api.claims}/a", patch)
        api.create(api.claims, claim("end", labels={"n": "0"}, queue="sel"))
        seen: list[tuple[str, str]] = []
        while True:
            event = watch.next()
            if event["object"]["metadata"]["name"] == "end":
                return seen
            seen.append((event["type"], event["object"]["spec"]["queue"]))


def test_a_label_watch_sees_objects_come_and_go(api: Api) -> None:
    make(api, "a")
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    got = seen_by(
        api,
        {"labelSelector": "n=0", "resourceVersion": version},
        {"spec": {"queue": "in"}},
        {"metadata": {"labels": {"n": "9"}}, "spec": {"queue": "out"}},
        {"spec": {"queue": "unseen"}},
        {"metadata": {"labels": {"n": "0"}}, "spec": {"queue": "back"}},
    )
    # It no longer matches: shown in its last matching state.
    assert got == [("MODIFIED", "in"), ("DELETED", "in"), ("ADDED", "back")]


def test_a_field_watch_sees_objects_come_and_go(api: Api) -> None:
    make(api, "a")
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    got = seen_by(
        api,
        {"fieldSelector": "spec.queue=sel", "resourceVersion": version},
        {"spec": {"queue": "sel"}},
        {"spec": {"priority": 50}},
        {"spec": {"queue": "out"}},
    )
    assert got == [("ADDED", "sel"), ("MODIFIED", "sel"), ("DELETED", "sel")]


def test_a_replayed_watch_applies_its_selector(api: Api) -> None:
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    make(api, "a", "b")
    api.ask("DELETE", f"{api.claims}/b")
    api.ask("DELETE", f"{api.claims}/a")
    query = {"labelSelector": "name=b", "resourceVersion": version}
    with api.watch(api.claims, **query) as watch:
        assert watch.take(2) == [("ADDED", "b"), ("DELETED", "b")]


def test_a_watch_of_one_namespace_sees_no_other(api: Api) -> None:
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    with api.watch(api.claims, resourceVersion=version) as watch:
        elsewhere = api.claims.replace(api.namespace, "default")
        api.create(elsewhere, claim(f"other-of-{api.namespace}"))
        make(api, "here")
        assert watch.take(1) == [("ADDED", "here")]


def test_removing_the_last_finalizer_appears_as_deleted(api: Api) -> None:
    body = claim("a") | {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    api.create(api.claims, body)
    version = api.get(api.claims)["metadata"]["resourceVersion"]
    with api.watch(api.claims, resourceVersion=version) as watch:
        api.ask("DELETE", f"{api.claims}/a")
        api.merged(f"{api.claims}/a", {"metadata": {"finalizers": None}})
        marked, gone = watch.next(), watch.next()
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert "deletionTimestamp" in marked["object"]["metadata"]
