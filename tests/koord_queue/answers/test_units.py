from __future__ import annotations

import pytest

from koord_queue.answers.decoding import decode
from koord_queue.answers.units import Unit


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(b'{"schedulerState": "admitted"}', "admitted", id="a server of today"),
        pytest.param(b'{"standing": "booked"}', "admitted", id="an older server"),
        pytest.param(b'{"standing": "held"}', "held", id="a word that has stayed"),
        pytest.param(b"{}", "", id="nothing is said"),
    ],
)
def test_the_state_is_in_the_words_of_today(answer: bytes, want: str) -> None:
    assert decode(answer, Unit).state == want
