"""Waiting for a state: until it is there, or while it stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.api_client import ApiError
from tests.waiting import stays, until, within


def missing(status: int = 404) -> ApiError:
    return ApiError("GET", "/queueunits/a", status, "")


def test_missing_objects_are_waited_for() -> None:
    answers: Iterator[ApiError | str] = iter([missing(), "", missing(), "there"])

    def look() -> str:
        answer = next(answers)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    assert until(look) == "there"


@pytest.mark.parametrize("status", [404, 403])
def test_a_lasting_404_or_another_refusal_is_an_error(status: int) -> None:
    def look() -> str:
        raise missing(status)

    with pytest.raises(ApiError, match=str(status)):
        until(look, 0.1)


def test_the_last_answer_is_returned_when_time_is_up() -> None:
    assert within(0.02, lambda: "") == ""


def test_what_does_not_stay_true_is_found() -> None:
    answers = iter([True, False])
    with pytest.raises(AssertionError):
        stays(lambda: next(answers))
