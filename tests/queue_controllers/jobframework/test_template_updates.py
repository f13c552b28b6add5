"""Additions of releases to pod templates: how they are noted, and removed."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from queue_controllers.jobframework.pod_template import ScheduledPodTemplate
from queue_controllers.jobframework.template_updates import (
    NOTHING_ADDED,
    AddedParts,
    TemplateUpdate,
    digest_of,
    read_added,
    take_off,
    take_off_body,
    update_body,
    why_unreadable,
    write_added,
)

NOTE = "koord-queue/pod-set-updates"
SPOT = {"key": "spot", "operator": "Exists"}
OWN = {"key": "own", "operator": "Exists"}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "a", "zone": "z1"}, "annotations": {"note": "n"}},
    "spec": {"nodeSelector": {"zone": "z1", "disk": "ssd"}, "tolerations": [OWN, SPOT]},
}
ADDED = AddedParts(
    labels={"zone": digest_of("z1")},
    annotations={"note": digest_of("n")},
    node_selector={"zone": digest_of("z1")},
    tolerations=(SPOT,),
)
CLEAN: dict[str, Any] = {
    "metadata": {"labels": {"app": "a"}, "annotations": {}},
    "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [OWN]},
}


def decoded(body: dict[str, Any]) -> ScheduledPodTemplate:
    return msgspec.convert(body, ScheduledPodTemplate)


def test_additions_are_removed() -> None:
    assert take_off(decoded(TEMPLATE), ADDED) == (decoded(CLEAN), ADDED)
    copy = msgspec.json.decode(msgspec.json.encode(TEMPLATE))
    assert take_off_body(copy, ADDED) == CLEAN


def test_additions_that_were_edited_since_are_kept() -> None:
    theirs = AddedParts(
        labels={"zone": digest_of("z2"), "gone": digest_of("x")},
        node_selector={"disk": digest_of("hdd")},
        tolerations=({"key": "other"},),
    )
    assert take_off(decoded(TEMPLATE), theirs) == (decoded(TEMPLATE), NOTHING_ADDED)
    copy = msgspec.json.decode(msgspec.json.encode(TEMPLATE))
    assert take_off_body(copy, theirs) == TEMPLATE


@pytest.mark.parametrize("body", [{}, {"metadata": None, "spec": {}}], ids=["bare", "null"])
def test_a_template_without_additions_loses_nothing(body: dict[str, Any]) -> None:
    assert take_off_body(dict(body), ADDED) == body


def test_the_note_can_be_read_again() -> None:
    note = write_added({"main": ADDED, "ps": NOTHING_ADDED})
    assert "z1" not in note
    assert read_added({NOTE: note}) == {"main": ADDED}
    assert write_added({"main": NOTHING_ADDED}) == ""


@pytest.mark.parametrize(
    ("note", "why"),
    [
        pytest.param("", "", id="empty: as if it were missing"),
        pytest.param("no JSON", "JSON is malformed", id="no JSON"),
        pytest.param("[]", "Expected `object`", id="a list"),
        pytest.param('{"main": 1}', "Expected `object`", id="no parts"),
        pytest.param('{"main": {"labels": {"a": 1}}}', "$[...].labels[...]", id="no digest"),
        pytest.param('{"a":' * 3000 + "1" + "}" * 3000, "nested more than 64", id="too deep"),
        pytest.param("[" * 60_000, "nested more than 64", id="never closed"),
        pytest.param(" " * 70_000, "70000 characters", id="longer than one that is written"),
        pytest.param("\ud800", "surrogates", id="no Unicode"),
    ],
)
def test_an_invalid_note_is_ignored(note: str, why: str) -> None:
    assert read_added({NOTE: note}) == {}
    assert why in why_unreadable({NOTE: note})
    assert bool(why) == bool(why_unreadable({NOTE: note}))


def test_without_a_note_nothing_was_added() -> None:
    assert read_added({}) == {}
    assert why_unreadable({}) == ""


def test_thousands_of_tolerations_take_no_time() -> None:
    """A user may write both, so they must not be compared each with each."""
    noted = AddedParts(tolerations=tuple({"key": f"n{number}"} for number in range(3_000)))
    assert read_added({NOTE: write_added({"main": noted})}) == {"main": noted}
    own = [{"key": f"t{number}", "operator": "Exists"} for number in range(20_000)]
    template = decoded({"spec": {"tolerations": [*own, {"key": "n7"}]}})
    began = time.process_time()
    cleaned, there = take_off(template, noted)
    assert time.process_time() - began < 2.0
    assert (len(cleaned.spec.tolerations), there.tolerations) == (20_000, ({"key": "n7"},))


def test_a_merge_patch_has_only_changed_fields() -> None:
    assert update_body(TemplateUpdate()) == {}
    assert update_body(TemplateUpdate(labels={"a": None}, tolerations=())) == {
        "metadata": {"labels": {"a": None}},
        "spec": {"tolerations": []},
    }
