"""Who a unit counts for, with and without names that the API server proves."""

from __future__ import annotations

import pytest

from shared_api.submitters import (
    NAMES_NOT_PROVED,
    Submitter,
    problems_of_names,
    read_submitter,
    submitter_name,
)
from shared_api.well_known_labels import GROUP, SUBMITTED_BY, USER

SERVICE_ACCOUNT = "system:serviceaccount:team-a:runner"


def test_without_proof_the_label_counts() -> None:
    labels, annotations = {USER: "ann", GROUP: "vision"}, {SUBMITTED_BY: "bob"}
    found = read_submitter("team-a", labels, annotations, are_proved=False)
    assert found == Submitter("ann", "vision")


def test_with_proof_only_the_annotation_counts() -> None:
    labels, annotations = {USER: "ann", GROUP: "vision"}, {SUBMITTED_BY: SERVICE_ACCOUNT}
    found = read_submitter("team-a", labels, annotations, are_proved=True)
    assert found == Submitter(SERVICE_ACCOUNT, "vision")


@pytest.mark.parametrize("are_proved", [False, True])
def test_who_names_nobody_counts_as_the_namespace_without_a_group(are_proved: bool) -> None:
    found = read_submitter("team-a", {GROUP: "vision"}, {}, are_proved=are_proved)
    assert found == Submitter("namespace:team-a", "")


def test_with_proof_a_label_alone_is_nobody() -> None:
    found = read_submitter("team-a", {USER: "ann", GROUP: "vision"}, {}, are_proved=True)
    assert found == Submitter("namespace:team-a", "")


@pytest.mark.parametrize("are_proved", [False, True])
def test_nobody_counts_as_another_namespace(are_proved: bool) -> None:
    labels, annotations = {USER: "namespace:team-b"}, {SUBMITTED_BY: "namespace:team-b"}
    found = read_submitter("team-a", labels, annotations, are_proved=are_proved)
    assert found == Submitter("namespace:team-a", "")


@pytest.mark.parametrize(
    ("are_used", "are_proved", "want"),
    [
        pytest.param(True, False, (NAMES_NOT_PROVED,), id="anybody may write what counts"),
        pytest.param(True, True, (), id="proved"),
        pytest.param(False, False, (), id="nothing counts by user"),
    ],
)
def test_names_that_count_without_proof_are_a_problem(
    are_used: bool, are_proved: bool, want: tuple[str, ...]
) -> None:
    assert problems_of_names(are_used=are_used, are_proved=are_proved) == want


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({USER: "ann"}, {SUBMITTED_BY: "ann"}, "ann", id="both"),
        pytest.param({USER: "7f3a"}, {}, "7f3a", id="a hash"),
        pytest.param({}, {SUBMITTED_BY: SERVICE_ACCOUNT}, SERVICE_ACCOUNT, id="fits in no label"),
        pytest.param({}, {}, "", id="nobody"),
    ],
)
def test_who_is_shown(labels: dict[str, str], annotations: dict[str, str], want: str) -> None:
    assert submitter_name(labels, annotations) == want
