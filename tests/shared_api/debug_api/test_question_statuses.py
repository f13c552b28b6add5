"""Reasons and statuses belong to each other, one to one."""

from __future__ import annotations

import pytest

from shared_api.debug_api.question_statuses import STATUSES, code_of
from shared_api.question_errors import Code


@pytest.mark.parametrize("code", Code)
def test_each_code_has_a_status_of_its_own(code: Code) -> None:
    assert code_of(STATUSES[code].value) is code


def test_another_status_is_an_internal_error() -> None:
    assert code_of(418) is Code.INTERNAL
