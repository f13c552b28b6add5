"""The questions of the demo, and their answers as lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.demo.answers import ask_why

HEAD: dict[str, Any] = {"namespace": "a", "name": "train", "refusal": {"reason": "OverQuotaMax"}}
CHANGES = [
    {"description": "Raise it.", "sufficient": True},
    {"description": "No.", "sufficient": False},
]
TOLD = {"verdict": "waiting", "summary": "It waits.", "changes": CHANGES}


def answered(head: dict[str, Any] | None, told: object) -> list[str]:
    pages = {
        "/debug/queues?limit=100": {"items": [{"head": None}, {"head": head}]},
        "/debug/queueunits/a/train/explain?changes=true": told,
    }
    return list(ask_why(lambda path: pages[path]))


def test_the_first_unit_that_waits_is_explained() -> None:
    assert answered(HEAD, TOLD) == [
        "asked why a/train waits:",
        "  It waits.",
        "  Any one of these would start it now:",
        "  - Raise it.",
    ]


def test_nothing_is_said_to_start_a_unit_that_no_change_starts() -> None:
    told = {**TOLD, "changes": CHANGES[1:]}
    assert answered(HEAD, told) == ["asked why a/train waits:", "  It waits."]


@pytest.mark.parametrize(
    ("head", "told"),
    [
        pytest.param(None, None, id="no unit waits"),
        pytest.param({**HEAD, "refusal": None}, TOLD, id="it is not refused"),
        pytest.param(HEAD, {**TOLD, "verdict": "admitted"}, id="it has started meanwhile"),
        pytest.param(HEAD, None, id="no answer"),
    ],
)
def test_nothing_is_said_while_nothing_waits(head: dict[str, Any] | None, told: object) -> None:
    assert answered(head, told) == []


def test_a_debug_api_that_does_not_answer() -> None:
    assert list(ask_why(lambda _path: None)) == []
