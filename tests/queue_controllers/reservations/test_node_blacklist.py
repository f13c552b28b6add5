"""Nodes that a ConfigMap names, and how a template excludes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from queue_controllers.reservations.node_blacklist import (
    MAX_NODES,
    Blacklist,
    BlacklistError,
    avoid_nodes,
    read_blacklist,
)
from queue_controllers.reservations.reservation_settings import BLACKLIST_SECONDS

NOW = datetime(2025, 4, 14, 12, 0, tzinfo=UTC)
AHEAD = '{"lastUpdateTimestamp": "2925-04-14T11:00:00Z"}'
LAST = '{"lastUpdateTimestamp": "9999-12-31T23:59:59-12:00"}'
FRESH = '{"lastUpdateTimestamp": "2025-04-14T11:00:00Z"}'
STALE = '{"lastUpdateTimestamp": "2023-04-14T11:00:00Z"}'
ODD = '{"lastUpdateTimestamp": 5}'
KEPT_OFF = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["bad"]}


def at(*times: str) -> str:
    reports = [{"lastUpdateTimestamp": each, "errorMsg": "e", "errorCode": 1} for each in times]
    return msgspec.json.encode({"node1": reports}).decode()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", (), id="empty"),
        pytest.param("{}", (), id="no node"),
        # Upstream lists the second as well: entries never expire there.
        pytest.param(at("2025-04-14T07:00:00Z"), ("node1",), id="[ctl-64] five hours ago"),
        pytest.param(at("2023-04-14T07:00:00Z"), (), id="[ctl-64] two years ago"),
        pytest.param(at("2025-04-14T00:00:01Z"), ("node1",), id="just within twelve hours"),
        pytest.param(at("2025-04-14T00:00:00Z"), (), id="twelve hours ago"),
        pytest.param(at("2023-04-14T07:00:00Z", "2025-04-14T11:00:00Z"), ("node1",), id="newest"),
        pytest.param(at("2025-04-14T08:00:01+08:00"), ("node1",), id="of another time zone"),
        pytest.param(at("2025-04-15T00:00:00Z"), ("node1",), id="a clock that is ahead"),
        pytest.param('{"node1": []}', ("node1",), id="without a report"),
        pytest.param('{"node1": [{}]}', ("node1",), id="without a time"),
        pytest.param('{"": []}', (), id="without a name"),
        pytest.param('{"b": [], "a": []}', ("a", "b"), id="in order"),
    ],
)
def test_which_nodes_are_listed(text: str, want: tuple[str, ...]) -> None:
    assert read_blacklist(text, NOW, BLACKLIST_SECONDS) == Blacklist(nodes=want)


@pytest.mark.parametrize("text", ["nonsense", "[]", '{"a": [', '{"a": []} x'])
def test_a_value_that_is_not_a_map_is_reported(text: str) -> None:
    with pytest.raises(BlacklistError, match="not a map of nodes to reports"):
        read_blacklist(text, NOW, BLACKLIST_SECONDS)


@pytest.mark.parametrize(
    ("entry", "is_bad", "why"),
    [
        pytest.param("1", False, "Expected `array`, got `int`", id="no reports"),
        pytest.param("null", False, "Expected `array`, got `null`", id="null"),
        pytest.param('["x"]', False, "Expected `object`, got `str`", id="no report"),
        pytest.param(f"[{ODD}]", False, "got `int` - at `$.lastUpdateTimestamp`", id="no time"),
        pytest.param(f"[{ODD}, {FRESH}]", True, "at `$.lastUpdateTimestamp`", id="one of two"),
        pytest.param(f"[{ODD}, {STALE}]", False, "at `$.lastUpdateTimestamp`", id="old, and one"),
        pytest.param(f"[{AHEAD}]", False, "is too far in the future", id="in 900 years"),
        pytest.param(f"[{LAST}]", False, "is too far in the future", id="the last time there is"),
        pytest.param(f"[{AHEAD}, {FRESH}]", True, "2925-04-14 11:00:00+00:00 is", id="and one"),
    ],
)
def test_an_invalid_entry_is_reported_and_all_others_count(
    entry: str, is_bad: bool, why: str
) -> None:
    text = f'{{"broken": {entry}, "node1": [{FRESH}]}}'
    got = read_blacklist(text, NOW, BLACKLIST_SECONDS)
    assert got.nodes == (("broken", "node1") if is_bad else ("node1",))
    assert got.unread.startswith("broken: ")
    assert why in got.unread


@pytest.mark.parametrize(
    ("hours_ahead", "want"),
    [
        pytest.param(0, range(12), id="of now"),
        pytest.param(12, range(24), id="ahead"),
        pytest.param(13, range(1, 25), id="too far ahead, at first"),
        pytest.param(24 * 365 * 900, range(0), id="in 900 years"),
    ],
)
def test_a_time_in_the_future_excludes_its_node_for_a_day_at_most(
    hours_ahead: int, want: range
) -> None:
    text = at((NOW + timedelta(hours=hours_ahead)).isoformat())
    got = [
        hour
        for hour in range(48)
        if read_blacklist(text, NOW + timedelta(hours=hour), BLACKLIST_SECONDS).nodes
    ]
    assert got == list(want)


def test_of_many_invalid_entries_the_first_are_reported() -> None:
    text = msgspec.json.encode({f"n{number}": 1 for number in range(5)}).decode()
    got = read_blacklist(text, NOW, BLACKLIST_SECONDS)
    why = "Expected `array`, got `int`"
    assert got.unread == f"n0: {why}; n1: {why}; n2: {why}; and 2 more"


def test_of_too_many_the_latest_reports_count() -> None:
    reports = {
        f"n{number:04}": [{"lastUpdateTimestamp": f"2025-04-14T11:00:00.{number:06}Z"}]
        for number in range(MAX_NODES + 10)
    }
    got = read_blacklist(msgspec.json.encode(reports).decode(), NOW, BLACKLIST_SECONDS).nodes
    assert len(got) == MAX_NODES
    assert got[0] == "n0010"


def terms_of(spec: dict[str, Any]) -> Any:
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"]


def with_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def test_a_template_without_affinity_gets_a_term() -> None:
    assert terms_of(avoid_nodes({"containers": []}, ("bad",))) == [{"matchExpressions": [KEPT_OFF]}]


def test_each_existing_term_gets_the_requirement() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    got = avoid_nodes(with_terms({"matchExpressions": [zone]}, fields), ("bad",))
    assert terms_of(got) == [
        {"matchExpressions": [zone, KEPT_OFF]},
        {**fields, "matchExpressions": [KEPT_OFF]},
    ]


@pytest.mark.parametrize(
    "terms",
    [
        pytest.param([{}], id="an empty term"),
        pytest.param([{"matchExpressions": []}], id="no requirement"),
        pytest.param([{"matchExpressions": None, "matchFields": []}], id="neither kind of them"),
        pytest.param([], id="no term"),
    ],
)
def test_a_term_that_matches_no_node_still_matches_none(terms: list[dict[str, Any]]) -> None:
    assert terms_of(avoid_nodes(with_terms(*terms), ("bad",))) == terms


def test_a_term_that_is_null_is_an_empty_one() -> None:
    spec = with_terms({"matchFields": [1]})
    terms_of(spec).append(None)
    assert terms_of(avoid_nodes(spec, ("bad",)))[1] == {}


def test_null_affinity_counts_as_none() -> None:
    null = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": None}}}
    for spec in ({"affinity": None}, {"affinity": {"nodeAffinity": None}}, null):
        assert terms_of(avoid_nodes(spec, ("bad",))) == [{"matchExpressions": [KEPT_OFF]}]


def test_other_parts_of_the_affinity_stay() -> None:
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    spec = {"affinity": {"nodeAffinity": preferred, "podAffinity": {"x": 1}}}
    got = avoid_nodes(spec, ("bad",))
    assert got["affinity"]["podAffinity"] == {"x": 1}
    assert preferred.items() <= got["affinity"]["nodeAffinity"].items()
    assert spec["affinity"]["nodeAffinity"] is preferred


def test_without_bad_nodes_nothing_is_added() -> None:
    assert avoid_nodes({"containers": []}, ()) == {"containers": []}
