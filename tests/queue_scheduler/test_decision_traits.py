"""Each reason answers each question about reasons."""

from __future__ import annotations

from queue_scheduler.decision import TRAITS, Reason, Trait, reasons_with


def test_each_reason_has_a_row() -> None:
    assert set(TRAITS) == set(Reason)


def test_each_trait_distinguishes_reasons() -> None:
    found = {trait: reasons_with(trait) for trait in Trait}
    assert [
        trait for trait, reasons in found.items() if not reasons or reasons == set(Reason)
    ] == []


def test_a_limit_is_compared_in_one_way() -> None:
    """Waiters are indexed by the way: one with both would be woken by neither."""
    assert reasons_with(Trait.SUM).isdisjoint(reasons_with(Trait.RUNTIME))
    assert reasons_with(Trait.FIXED_LIMIT) <= reasons_with(Trait.SUM)
