"""How two writes are merged, and the outcome of a failed one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shared_api.client.errors import (
    ApiFailure,
    ConnectionLost,
    Invalid,
    MalformedAnswer,
    ServerError,
    Timeout,
    TooManyRequests,
)
from shared_api.client.flow_control import Lane
from shared_api.client.resource_types import QUEUE_UNITS
from shared_api.client.writes import (
    Dropped,
    Outcome,
    Rejected,
    Unknown,
    Verb,
    Write,
    combine_patches,
    contradict,
    is_pointless_beside,
    merge,
    outcome_of,
    status_change,
    status_report,
    supersedes,
)
from shared_api.objects.meta import ObjectMeta, Uid

LOW, NORMAL = Lane.LOW, Lane.NORMAL


def patch(
    version: str = "1", lane: Lane = NORMAL, subresource: str = "status", **status: Any
) -> Any:
    return Write(
        resource_type=QUEUE_UNITS,
        namespace="team",
        name="u",
        body={"metadata": {"resourceVersion": version}, "status": status},
        subresource=subresource,
        lane=lane,
    )


CREATE: Any = Write(resource_type=QUEUE_UNITS, namespace="team", name="u", verb=Verb.CREATE)


def test_a_change_of_a_status_is_guarded_by_the_version_it_is_based_on() -> None:
    meta = ObjectMeta(name="u", namespace="team", uid=Uid("u1"), resource_version="7")
    got = status_change(QUEUE_UNITS, meta, {"message": "why"})
    assert got == patch("7", message="why")


def test_a_report_is_a_low_patch_of_the_status() -> None:
    body = {"status": {"message": "why"}}
    got = status_report(QUEUE_UNITS, "team", "u", body)
    assert (got.verb, got.lane, got.subresource) == (Verb.PATCH, LOW, "status")
    assert (got.resource_type, got.namespace, got.name) == (QUEUE_UNITS, "team", "u")
    assert got.body == body


# -------------------------------------------------------------------------------- merge patches

values = st.recursive(
    st.none() | st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=1),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
patches = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def apply(document: Any, patch_: Any) -> Any:
    """Apply a merge patch as in RFC 7386, section 2."""
    if not isinstance(patch_, dict):
        return patch_
    result = dict(document) if isinstance(document, dict) else {}
    for name, value in patch_.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply(result.get(name), value)
    return result


@pytest.mark.properties
@given(patches, patches, patches)
def test_a_merged_patch_does_what_both_would_do(
    document: dict[str, Any], old: dict[str, Any], new: dict[str, Any]
) -> None:
    merged = combine_patches(old, new)
    assume(merged is not None)
    assert apply(document, merged) == apply(apply(document, old), new)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({"a": {"x": 1}}, {"a": {"y": 2}, "b": 3}, {"a": {"x": 1, "y": 2}, "b": 3}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": {"x": None}}, {"a": {"x": 1}}, {"a": {"x": 1}}),
        ({"a": None}, {"a": {"x": 1}}, None),
        ({"s": {"a": 1}}, {"s": {"a": {"x": 1}}}, None),
    ],
)
def test_merging_patches(old: Any, new: Any, want: Any) -> None:
    before = repr((old, new))
    assert combine_patches(old, new) == want
    assert repr((old, new)) == before, "patches are values"


@pytest.mark.parametrize(
    ("one", "other", "want"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "c": 3}, False),
        ({"a": 1}, {"a": None}, True),
        ({"a": [1, 2]}, {"a": [1]}, True),
        ({"s": {"a": 1}}, {"s": {"b": 2}}, False),
        ({"s": {"a": 1}}, {"s": {"a": 2}}, True),
        ({"s": {"a": 1}}, {"s": None}, True),
    ],
)
def test_which_patches_contradict_each_other(one: Any, other: Any, *, want: bool) -> None:
    assert contradict(one, other) is want
    assert contradict(other, one) is want


# --------------------------------------------------------------------------------------- writes


@pytest.mark.parametrize(
    ("waiting", "new", "want"),
    [
        pytest.param(patch(a=1), patch(b=2), patch(a=1, b=2), id="same version"),
        pytest.param(patch("1", a=1), patch("2", b=2), None, id="another version"),
        pytest.param(patch(a=1), patch(subresource="", b=2), None, id="another subresource"),
        pytest.param(patch(a=1), patch(lane=LOW, b=2), None, id="another lane"),
        pytest.param(CREATE, patch(b=2), None, id="after a create"),
        pytest.param(patch(a=None), patch(a={"x": 1}), None, id="cannot be expressed as one"),
        pytest.param(patch(a=[1], b=2), patch(a=[3]), None, id="contradicts"),
        pytest.param(patch(a=[1]), patch(a=[1], b=2), patch(a=[1], b=2), id="includes the first"),
        pytest.param(
            patch(lane=LOW, a=[1], b=2),
            patch(lane=LOW, a=[3]),
            patch(lane=LOW, a=[3], b=2),
            id="a newer report",
        ),
        pytest.param(patch("", a=1), patch("", a=2), patch("", a=2), id="whatever the version"),
    ],
)
def test_patches_of_one_object_are_merged_if_the_result_is_the_same(
    waiting: Any, new: Any, want: Any
) -> None:
    assert merge(waiting, new) == want


@pytest.mark.parametrize(
    ("new", "waiting", "want_supersedes", "want_pointless"),
    [
        pytest.param(patch(), patch(lane=LOW), True, False, id="normal over low"),
        pytest.param(patch(lane=LOW), patch(), False, True, id="low after normal"),
        pytest.param(patch("2", LOW), patch("1", LOW), True, False, id="low of a newer version"),
        pytest.param(patch("1", LOW), patch("1", LOW), False, False, id="low of the same version"),
        pytest.param(patch("2"), patch("1"), False, False, id="normal and normal"),
        pytest.param(patch(subresource=""), patch(lane=LOW), False, False, id="subresources"),
    ],
)
def test_which_write_makes_another_obsolete(
    new: Any, waiting: Any, *, want_supersedes: bool, want_pointless: bool
) -> None:
    assert supersedes(new, waiting) is want_supersedes
    assert is_pointless_beside(new, waiting) is want_pointless


def in_doubt(failure: Any) -> Any:
    failure.after_retry = True
    return failure


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        (Invalid(422), Rejected),
        (in_doubt(Invalid(422)), Rejected),
        (TooManyRequests(429), Dropped),
        (in_doubt(TooManyRequests(429)), Rejected),
        (ServerError(500), Unknown),
        (ServerError(503, retry_after_seconds=1.0), Dropped),
        (ConnectionLost("", sent=True), Unknown),
        (ConnectionLost("", sent=False), Dropped),
        (Timeout("", sent=False), Dropped),
        (MalformedAnswer(""), Unknown),
    ],
)
def test_the_outcome_of_a_failed_write(failure: ApiFailure, want: type[Outcome[object]]) -> None:
    assert isinstance(outcome_of(failure), want)


@pytest.mark.parametrize(
    ("failure", "want"),
    [
        (TooManyRequests(429, retry_after_seconds=20.0), 20.0),
        (Timeout("", sent=False, retry_after_seconds=7.0), 7.0),
        (Timeout("", sent=False), 0.0),
    ],
)
def test_a_dropped_write_has_the_time_at_which_it_may_be_sent(
    failure: ApiFailure, want: float
) -> None:
    assert outcome_of(failure) == Dropped(str(failure), want)
