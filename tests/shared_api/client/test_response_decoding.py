"""How pages and events are decoded, including those with an undecodable object."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from shared_api.client.errors import DecodeFailure, MalformedAnswer, UndecodableObject
from shared_api.client.response_decoding import (
    AnswerReader,
    Page,
    WatchEvent,
    WatchStream,
    flattened,
    read_json,
    read_whole,
)
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.objects.queue_unit import QueueUnit, QueueUnitSpec
from shared_api.text_decoding import TextError
from tests.shared_api.client.scripted_transport import ListedStream

READER = AnswerReader(QueueUnit)
GOOD = {
    "metadata": {"name": "a", "namespace": "team", "uid": "1", "resourceVersion": "7"},
    "spec": {"queue": "q"},
}
BAD = {
    "metadata": {"name": "b", "namespace": "team", "uid": "2", "resourceVersion": "8"},
    "spec": {"priority": "high"},
}
WANT = QueueUnit(
    metadata=ObjectMeta(name="a", namespace="team", uid=Uid("1"), resource_version="7"),
    spec=QueueUnitSpec(queue="q"),
)
WANT_FAILURE = DecodeFailure(
    "team", "b", Uid("2"), "8", "Expected `int`, got `str` - at `$.spec.priority`"
)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("items", "want"),
    [
        ([GOOD], (WANT,)),
        ([BAD, GOOD], (WANT_FAILURE, WANT)),
        ([], ()),
        (None, ()),
    ],
)
def test_an_undecodable_object_does_not_affect_others(items: Any, want: Any) -> None:
    body = {"metadata": {"resourceVersion": "9", "continue": "c"}, "items": items}
    assert READER.read_page(encoded(body)) == Page(want, "9", "c")


def salvage(body: Any, error: str) -> QueueUnit:
    """Return a salvaged unit with its name; "b" cannot be salvaged."""
    spec = {"priority": "higher"} if body["metadata"]["name"] == "b" else {"queue": error}
    return msgspec.convert({**body, "spec": spec}, QueueUnit)


@pytest.mark.parametrize(("name", "is_saved"), [("a", True), ("b", False)])
def test_a_salvaged_object_is_part_of_the_failure(name: str, is_saved: bool) -> None:
    bad = {**BAD, "metadata": {**BAD["metadata"], "name": name}}
    [item] = (
        AnswerReader(QueueUnit, salvage).read_page(encoded({"metadata": {}, "items": [bad]})).items
    )
    assert isinstance(item, DecodeFailure)
    meta = msgspec.convert(bad["metadata"], ObjectMeta)
    saved = QueueUnit(metadata=meta, spec=QueueUnitSpec(queue=item.error))
    assert item.salvaged == (saved if is_saved else None)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"metadata":{},"items":[3]}', b"", b"\xff"])
def test_a_body_that_is_not_a_list_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        READER.read_page(body)


def test_an_object_is_decoded_or_refused_with_its_name() -> None:
    assert READER.read_object(encoded(GOOD)) == WANT
    with pytest.raises(UndecodableObject, match=r"team/b: .*spec\.priority") as caught:
        READER.read_object(encoded(BAD))
    assert caught.value.failure == WANT_FAILURE
    with pytest.raises(MalformedAnswer):
        READER.read_object(b"<html>")


def test_null_is_absent_as_in_go() -> None:
    template: dict[str, Any] = {"metadata": {"labels": None, "annotations": {"a": None, "b": "c"}}}
    template["spec"] = {"containers": None, "initContainers": [{"name": "x", "resources": None}]}
    nulls = {**GOOD, "spec": {"queue": "q", "podSet": [{"name": "p", "template": template}]}}
    unit = READER.read_object(encoded(nulls))
    (pods,) = unit.spec.pod_set
    assert pods.template.metadata.labels == {}
    assert pods.template.metadata.annotations == {"b": "c"}
    assert pods.template.spec.containers == ()
    assert [each.name for each in pods.template.spec.init_containers] == ["x"]


def test_a_wrong_type_is_reported_even_with_nulls_elsewhere() -> None:
    broken = {**BAD, "metadata": {**BAD["metadata"], "labels": None}}
    with pytest.raises(UndecodableObject) as caught:
        READER.read_object(encoded(broken))
    assert caught.value.failure == WANT_FAILURE


DEPTH = 9000
DEEP = b"[" * DEPTH + b"1" + b"]" * DEPTH
"""The depth that the API server allows, nine times that of Python's decoders."""


def deep(name: str, *, labels: str = "{}") -> bytes:
    """Return a unit whose template is deeply nested, with brackets in texts."""
    return b"""{"metadata":{"name":"%s","namespace":"team","resourceVersion":"7"},
        "spec":{"podSet":[{"name":"[{\\"","template":{"metadata":{"labels":%s},
        "spec":{"x":%s,"y":{"a":"]]}}"},"nodeName":"n"}}}],"queue":"q"}}""" % (
        name.encode(),
        labels.encode(),
        DEEP,
    )


def test_a_deeply_nested_object_is_decoded_without_its_inner_levels() -> None:
    unit = READER.read_object(deep("a"))
    assert (unit.metadata.key, unit.spec.queue) == ("team/a", "q")
    (pods,) = unit.spec.pod_set
    assert (pods.name, pods.template.spec.node_name) == ('[{"', "n")


def test_it_does_not_affect_other_objects_of_its_list_or_watch() -> None:
    items = b",".join([encoded(GOOD), deep("a"), deep("b", labels="3"), encoded(BAD)])
    page = READER.read_page(b'{"metadata":{"resourceVersion":"9"},"items":[%s]}' % items)
    good, read, broken, bad = page.items
    assert good == WANT
    assert isinstance(read, QueueUnit)
    assert isinstance(broken, DecodeFailure)
    assert (broken.name, broken.resource_version) == ("b", "7")
    assert "labels" in broken.error
    assert bad == WANT_FAILURE
    event = READER.read_event(b'{"type":"ADDED","object":%s}' % deep("a"))
    assert event.object is not None
    assert event.resource_version == "7"


def test_an_object_of_usual_depth_is_not_changed() -> None:
    body = b'{"a":[[1,{"b":"]["}],[]],"c":%s}' % (b"[" * 150 + b"]" * 150)
    assert flattened(body) == body
    assert read_json(body) == json.loads(body)
    assert read_json(b'{"a":%s,"b":2}' % DEEP)["b"] == 2
    with pytest.raises(MalformedAnswer):
        read_json(b"<html>")


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param({"type": "ADDED", "object": GOOD}, WatchEvent("ADDED", WANT, "7"), id="added"),
        pytest.param(
            {"type": "DELETED", "object": GOOD}, WatchEvent("DELETED", WANT, "7"), id="deleted"
        ),
        pytest.param(
            {"type": "MODIFIED", "object": BAD},
            WatchEvent("MODIFIED", resource_version="8", undecodable=WANT_FAILURE),
            id="undecodable",
        ),
        pytest.param(
            {"type": "BOOKMARK", "object": {"kind": "x", "metadata": {"resourceVersion": "99"}}},
            WatchEvent("BOOKMARK", resource_version="99"),
            id="bookmark",
        ),
        pytest.param(
            {
                "type": "ERROR",
                "object": {"kind": "Status", "metadata": {}, "code": 410, "reason": "Expired"},
            },
            WatchEvent("ERROR", status=(410, "Expired", "")),
            id="error",
        ),
    ],
)
def test_a_line_is_an_event(line: Any, want: WatchEvent[QueueUnit]) -> None:
    assert READER.read_event(encoded(line)) == want


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b'{"type":"ADDED"}',
        b'{"type":"PARTED","object":{}}',
        b'{"type":"ADDED","object":1}',
    ],
)
def test_a_line_that_is_not_an_event_is_malformed(line: bytes) -> None:
    with pytest.raises(MalformedAnswer):
        READER.read_event(line)


def test_a_watch_returns_its_events_and_then_its_end() -> None:
    lines = ListedStream(200, [encoded({"type": "ADDED", "object": GOOD})])
    stream = WatchStream(lines, READER)
    assert stream.next_event(1.0) == WatchEvent("ADDED", WANT, "7")
    assert stream.next_event(1.0) is None
    stream.close()
    assert lines.closed


def test_a_whole_object_is_read_or_refused_and_never_shortened() -> None:
    """Parts of it are written back."""
    assert read_whole(b'{"a": {"b": null}}') == {"a": {"b": None}}
    with pytest.raises(TextError, match="nested too deep"):
        read_whole(b'{"a":' * 5000 + b"1" + b"}" * 5000)
    for answer in (b"[]", b"<html>"):
        with pytest.raises(MalformedAnswer):
            read_whole(answer)
