"""The limits of users as rows."""

from __future__ import annotations

from koord_queue.answers.quotas import UserLimit
from koord_queue.show.user_limit_rows import user_rows

ANN = UserLimit(
    quota="a",
    name="ann",
    policy="p",
    max={"cpu": "8", "memory": "1Gi"},
    used={"cpu": "6"},
    max_running=4,
    running=2,
)
STAFF = UserLimit(quota="a", is_group=True, name="staff", policy="p", entry=1, max={"cpu": "9"})


def test_each_limit_is_a_row() -> None:
    assert list(user_rows([ANN, STAFF])) == [
        ["a", "ann", "", "cpu", "6", "8", "p[0]"],
        ["a", "ann", "", "memory", "0", "1Gi", "p[0]"],
        ["a", "ann", "", "running units", "2", "4", "p[0]"],
        ["a", "", "staff", "cpu", "0", "9", "p[1]"],
    ]


def test_only_one_resource_is_shown() -> None:
    assert [row[3] for row in user_rows([ANN, STAFF], "cpu")] == ["cpu", "cpu"]
