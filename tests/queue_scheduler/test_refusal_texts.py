"""Every reason has a text; texts for conditions have no numbers, those for the API have all."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from queue_scheduler.decision import Reason, Refusal
from queue_scheduler.refusal_texts import full_message, queue_message, stable_message
from shared_api.well_known_labels import MAX_EXEC_TIME

WHOLE = {
    "quota": "team",
    "resource": "cpu",
    "limit": 4000,
    "used": 3500,
    "requested": 1500,
    "other": "neighbour",
    "detail": "something else",
}


def refusal(reason: Reason, **numbers: int) -> Refusal:
    return Refusal(reason=reason, **{**WHOLE, **numbers})  # type: ignore[arg-type] # a table of keywords


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_text_that_does_not_change_with_numbers(reason: Reason) -> None:
    text = stable_message(refusal(reason))
    assert text
    assert "{" not in text
    assert not re.search(r"\d", text)
    assert text == stable_message(refusal(reason, limit=1, used=2, requested=3))


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_text_where_nothing_is_known(reason: Reason) -> None:
    text = stable_message(Refusal(reason=reason))
    assert "{" not in text
    assert full_message(Refusal(reason=reason)).startswith(text)


def test_the_full_text_has_every_number_as_a_quantity() -> None:
    assert full_message(refusal(Reason.OVER_QUOTA_MAX)) == (
        "needs more cpu than the max of quota team leaves: "
        "missing 1 (limit 4, used 3.5, requested 1.5)"
    )


@pytest.mark.parametrize(
    ("reason", "limit"),
    [
        (Reason.OVER_QUOTA_MAX, "max"),
        (Reason.OVER_PARENT_MAX, "max"),
        (Reason.OVER_RUNTIME, "runtime"),
        (Reason.OVER_PARENT_RUNTIME, "runtime"),
        (Reason.OVER_MIN, "min"),
    ],
)
def test_a_unit_that_requests_nothing_is_not_said_to_need_more(reason: Reason, limit: str) -> None:
    said = refusal(reason, used=6000, requested=0)
    assert full_message(said) == (
        f"quota team uses more cpu than its {limit}: until that ends no unit starts in it, "
        "not even one that requests none: missing 2 (limit 4, used 6, requested 0)"
    )


def test_a_unit_that_is_not_preemptible_is_told_what_exceeds_min_without_it() -> None:
    said = refusal(Reason.NON_PREEMPTIBLE_OVER_MIN, used=6000, requested=0)
    assert full_message(said) == (
        "units and pods of quota team that are not preemptible use more cpu than its min: until "
        "that ends no other starts in it, not even one that requests none: "
        "missing 2 (limit 4, used 6, requested 0)"
    )


def test_numbers_of_one_sentence_have_one_unit() -> None:
    said = Refusal(
        reason=Reason.OVER_QUOTA_MAX,
        quota="team",
        resource="nvidia.com/gpu",
        limit=1000,
        requested=1200,
    )
    assert full_message(said).endswith("missing 200 (limit 1000, used 0, requested 1200)")
    hurts = refusal(Reason.HURTS_OTHERS)
    assert full_message(hurts).endswith("neighbour uses 3.5, would get 4")


def test_a_reducible_unit_learns_that_not_even_its_fewest_pods_fit() -> None:
    said = refusal(Reason.OVER_QUOTA_MAX, is_least=True)
    words = "needs more cpu than the max of quota team leaves, even with its fewest pods (minCount)"
    assert stable_message(said) == words
    unknown = Refusal(reason=Reason.UNKNOWN_QUOTA, quota="team", is_least=True)
    assert stable_message(unknown) == "quota team does not exist"


def test_memory_is_written_with_binary_suffixes() -> None:
    gib = 2**30
    said = Refusal(
        reason=Reason.OVER_RUNTIME, quota="team", resource="memory", limit=gib, requested=2 * gib
    )
    assert full_message(said).endswith("missing 1Gi (limit 1Gi, used 0, requested 2Gi)")


@pytest.mark.parametrize(
    ("reason", "numbers"),
    [
        (Reason.OVER_RUNTIME, "missing 1m (limit 749m, used 0, requested 750m)"),
        (Reason.HURTS_OTHERS, "other uses 0, would get 749m"),
    ],
)
def test_rounding_is_named_where_it_loses_what_is_missing(reason: Reason, numbers: str) -> None:
    said = Refusal(
        reason=reason, quota="q", resource="cpu", limit=749, requested=750, other="other"
    )
    rounded = replace(said, is_rounded=True)
    assert full_message(said).endswith(f": {numbers}")
    assert full_message(rounded).endswith(
        f": {numbers}; the difference is no more than koord-scheduler up to 1.8 loses by rounding"
        " shares half up"
    )
    # The text on objects does not change with the numbers.
    assert stable_message(rounded) == stable_message(said)


def test_a_unit_without_declared_time_learns_how_a_job_declares_it() -> None:
    text = stable_message(refusal(Reason.NO_MAX_EXECUTION_TIME))
    assert MAX_EXEC_TIME.partition("/")[2] in text


def test_a_unit_behind_another_learns_behind_which() -> None:
    said = Refusal(reason=Reason.BEHIND_REFUSED_UNIT, quota="team", resource="cpu", other="ns/big")
    assert full_message(said).endswith(": ns/big")


def test_a_queue_that_is_not_found_may_be_unreadable_or_in_another_namespace() -> None:
    said = Refusal(reason=Reason.NO_QUEUE, quota="team", other="batch", detail="koord-queue")
    words = "queue batch does not exist in namespace koord-queue, or cannot be read"
    assert stable_message(said) == words


def test_a_unit_that_no_plugin_places_says_so() -> None:
    said = Refusal(reason=Reason.NO_QUEUE, detail="no plugin maps this unit to a queue")
    assert stable_message(said) == "has no queue: no plugin maps this unit to a queue"


@pytest.mark.parametrize("words_of", [stable_message, full_message, queue_message])
def test_among_several_quotas_of_one_name_the_effective_one_is_named(
    words_of: Callable[[Refusal], str],
) -> None:
    said = Refusal(reason=Reason.EXCEEDS_QUOTA, quota="team", quota_namespace="labs")
    assert "quota team (the one in namespace labs, which is the oldest)" in words_of(said)


def test_an_admission_that_was_not_written_may_be_refused() -> None:
    """For up to a quarter of an hour: `dequeue_cycle.ASIDE`."""
    assert "its events say why" in stable_message(refusal(Reason.WRITE_FAILED))


@pytest.mark.parametrize(
    ("quota", "says"),
    [
        ("gone", "no quota: gone does not exist"),
        ("", "namespace neighbour has none"),
    ],
)
def test_no_quota_says_which_of_two_things_is_wrong(quota: str, says: str) -> None:
    said = Refusal(reason=Reason.NO_QUOTA, quota=quota, other="neighbour")
    assert says in stable_message(said)


@pytest.mark.parametrize(
    ("until", "says"),
    [
        ("2026-11-01T10:00:00Z", "waits to be tried again at 2026-11-01T10:00:00Z"),
        ("", "waits to be tried again at once"),
    ],
)
def test_a_backoff_says_until_when(until: str, says: str) -> None:
    assert stable_message(Refusal(reason=Reason.IN_BACKOFF, detail=until)) == says


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_text_for_a_queue(reason: Reason) -> None:
    text = queue_message(refusal(reason))
    assert text
    assert "{" not in text
