from __future__ import annotations

from typing import Any

import pytest

from koord_queue.checks.facts import AccountRight, Answer, Right
from koord_queue.checks.rights import REVIEW, rights_of_program, rights_of_user
from tests.koord_queue.checks.healthy import deployment, finding_texts, found

YES, NO = Answer({"allowed": True}), Answer({"allowed": False})
MINE = [each.right for each in rights_of_user("default", "koord-queue", is_published=False)]
ALL = dict.fromkeys(MINE, YES)
UNITS, QUEUES, WRITE_UNITS, WRITE_QUEUES = MINE
MAY_ALL = "ok: in namespace default you see units, see queues, change units, stop and resume queues"


@pytest.mark.parametrize(
    ("mine", "want"),
    [
        pytest.param(ALL, [MAY_ALL], id="all rights"),
        pytest.param(
            ALL | {WRITE_UNITS: NO, WRITE_QUEUES: NO},
            [
                (
                    "ok: in namespace default you see units, see queues;"
                    " not change units or stop and"
                    " resume queues"
                )
            ],
            id="who only looks is told so",
        ),
        pytest.param(
            ALL | {QUEUES: NO},
            [
                "ok: in namespace default you see units, change units, stop and resume queues",
                (
                    "warning: you may not list queues.scheduling.x-k8s.io in namespace koord-queue:"
                    " commands do not see queues"
                ),
            ],
            id="a right that everybody needs",
        ),
        pytest.param(
            {UNITS: Answer(failure="it is down")},
            [
                f"unknown: whether you may {UNITS}: it is down",
                *(f"unknown: whether you may {right}: not asked" for right in MINE[1:]),
            ],
            id="no answer",
        ),
    ],
)
def test_what_the_user_may_do_is_told(mine: dict[Right, Answer], want: list[str]) -> None:
    assert finding_texts("rights", mine=mine) == want


def test_the_right_to_see_positions_is_asked_where_they_are_published() -> None:
    *_, pending = rights_of_user("default", "koord-queue", is_published=True)
    got = found("rights", mine=ALL | {pending.right: NO})
    assert got[1].text.endswith("commands do not see positions and forecasts")
    assert got[1].fix == "have the ClusterRole koord-queue-visibility-viewer bound to you"


def of_account(right: str, answer: Answer) -> AccountRight:
    return AccountRight("koord-queue", Right(verb=right, resource="pods"), "count pods", answer)


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param({}, f"unknown: their rights: you may not {REVIEW}", id="not asked"),
        pytest.param(
            {"may_review": NO}, f"unknown: their rights: you may not {REVIEW}", id="no right to ask"
        ),
        pytest.param(
            {"may_review": YES}, "unknown: their rights: no program was found", id="no program"
        ),
        pytest.param(
            {"may_review": YES, "accounts": (of_account("list", YES),)},
            "ok: have the rights that they need: koord-queue",
            id="all rights",
        ),
        pytest.param(
            {
                "may_review": YES,
                "accounts": (of_account("list", NO), of_account("get", NO), of_account("x", YES)),
            },
            "problem: service account koord-queue may not list pods (to count pods), get pods (to"
            " count pods)",
            id="a right is missing",
        ),
    ],
)
def test_the_rights_of_the_programs_are_judged(changes: dict[str, Any], want: str) -> None:
    assert finding_texts("accounts", **changes) == [want]


def test_a_program_needs_its_lease_and_what_it_works_with() -> None:
    container = deployment("scheduler")["spec"]["template"]["spec"]["containers"][0]
    needed = rights_of_program("scheduler", container, "system")
    assert needed[-1].right == Right(
        verb="patch",
        group="coordination.k8s.io",
        resource="leases",
        namespace="system",
        name="koord-queue-lease",
    )
    assert "patch queueunits/status.scheduling.x-k8s.io" in [str(each.right) for each in needed]
    controllers = [str(each.right) for each in rights_of_program("controllers", {}, "system")]
    assert "create queueunits.scheduling.x-k8s.io" in controllers
    assert rights_of_program("other", container, "system") == []
