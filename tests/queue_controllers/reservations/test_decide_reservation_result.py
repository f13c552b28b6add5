"""koord-scheduler's results of reservations, one by one and together."""

from __future__ import annotations

import pytest

from queue_controllers.reservations.decide import (
    Answer,
    ReservationResult,
    judge_reservations,
)
from shared_api.objects.meta import Condition
from tests.queue_controllers.reservations.reservation_kit import NO, YES, reservation, said

PREEMPTED = said("True", kind="Preempted")


@pytest.mark.parametrize(
    ("conditions", "want"),
    [
        pytest.param((), Answer.OPEN, id="no result"),
        pytest.param((said("True", kind="Ready"),), Answer.OPEN, id="another condition"),
        pytest.param((YES,), Answer.GRANTED, id="yes, without a number"),
        pytest.param((NO,), Answer.REFUSED, id="no, without a number"),
        pytest.param((said("True", "Scheduled/2"),), Answer.GRANTED, id="yes to this attempt"),
        pytest.param((said("False", "X/2"),), Answer.REFUSED, id="no to this attempt"),
        pytest.param((said("False", "X/1"),), Answer.OPEN, id="no to the attempt before"),
        pytest.param((said("True", "X/21"),), Answer.OPEN, id="yes to another attempt"),
        pytest.param((said("False", "a/b"),), Answer.REFUSED, id="what follows is not a number"),
        pytest.param((said("False", "X/"),), Answer.REFUSED, id="nothing follows"),
        pytest.param((said("False", "X/٢"),), Answer.REFUSED, id="a digit of another script"),
        pytest.param((said("Unknown", "X"),), Answer.OPEN, id="neither yes nor no"),
        pytest.param((NO, PREEMPTED), Answer.OPEN, id="no, but others are preempted for it"),
        pytest.param((NO, said("False", kind="Preempted")), Answer.REFUSED, id="none preempted"),
        pytest.param((YES, PREEMPTED), Answer.GRANTED, id="yes, after others were preempted"),
        pytest.param((said("False", "X/1"), said("True", "X/2")), Answer.GRANTED, id="both"),
    ],
)
def test_one_reservation(conditions: tuple[Condition, ...], want: Answer) -> None:
    assert judge_reservations([reservation("a", *conditions)], 2).answer is want


def test_an_expired_one_counts_as_refused() -> None:
    got = judge_reservations([reservation("a", YES, phase="Failed")], 1)
    assert got == ReservationResult(Answer.REFUSED, "a: it is over")


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param((YES, YES), Answer.GRANTED, id="all have their nodes"),
        pytest.param((YES, None), Answer.OPEN, id="one is not decided"),
        pytest.param((NO, None), Answer.OPEN, id="one is refused, one not decided"),
        pytest.param((YES, NO), Answer.REFUSED, id="one is refused"),
        pytest.param((), Answer.GRANTED, id="none is needed"),
    ],
)
def test_all_of_a_unit(answers: tuple[Condition | None, ...], want: Answer) -> None:
    reservations = [
        reservation(f"r{number}", *([] if answer is None else [answer]))
        for number, answer in enumerate(answers)
    ]
    assert judge_reservations(reservations, 1).answer is want


def test_the_message_is_that_of_one_in_any_order() -> None:
    refused = [reservation("b", said("False", message="no gpu")), reservation("a", NO)]
    for order in (refused, refused[::-1]):
        got = judge_reservations([*order, reservation("0", YES)], 1)
        assert got.message == "a: 0/3 nodes are available"
