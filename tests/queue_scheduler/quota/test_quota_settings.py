from __future__ import annotations

import pytest

from queue_scheduler.quota.quota_settings import (
    QuotaMode,
    QuotaSettings,
    QuotaSettingsError,
    Rounding,
    rounding_of,
    wrap_int64,
)


@pytest.mark.parametrize(
    ("version", "want"),
    [
        pytest.param("1.5", Rounding.HALF_UP, id="an old release"),
        pytest.param("1.8", Rounding.HALF_UP, id="the default"),
        pytest.param("v1.8.0", Rounding.HALF_UP, id="the last with half-up"),
        pytest.param("v1.8.0-rc1", Rounding.HALF_UP, id="a candidate of it"),
        pytest.param("1.8.1", Rounding.LARGEST_REMAINDER, id="a patch after the change"),
        pytest.param("1.9", Rounding.LARGEST_REMAINDER, id="the next"),
        pytest.param("2", Rounding.LARGEST_REMAINDER, id="a major"),
        pytest.param("HEAD", Rounding.LARGEST_REMAINDER, id="main"),
    ],
)
def test_rounding_follows_the_release(version: str, want: Rounding) -> None:
    assert rounding_of(version) is want
    assert QuotaSettings(koordinator_version=version).rounding is want


def test_rounding_can_be_set_separately() -> None:
    settings = QuotaSettings(rounding_override=Rounding.LARGEST_REMAINDER)
    assert settings.rounding is Rounding.LARGEST_REMAINDER


@pytest.mark.parametrize("version", ["", "latest", "1.x", "1..8"])
def test_an_invalid_version_is_an_error(version: str) -> None:
    with pytest.raises(QuotaSettingsError, match="koordinatorVersion"):
        QuotaSettings(koordinator_version=version)


@pytest.mark.parametrize("mode", [QuotaMode.RUNTIME, QuotaMode.MIN])
def test_only_max_mode_can_oversell(mode: QuotaMode) -> None:
    with pytest.raises(QuotaSettingsError, match=f"must be 1 in mode '{mode}'"):
        QuotaSettings(mode=mode, oversell_numerator=3, oversell_denominator=2)


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 0), (-1, 1)])
def test_the_rate_is_positive(numerator: int, denominator: int) -> None:
    with pytest.raises(QuotaSettingsError, match="greater than 0"):
        QuotaSettings(
            mode=QuotaMode.MAX, oversell_numerator=numerator, oversell_denominator=denominator
        )


def test_overselling_rounds_down() -> None:
    settings = QuotaSettings(mode=QuotaMode.MAX, oversell_numerator=3, oversell_denominator=2)
    assert [settings.oversold(amount) for amount in (0, 1, 2, 3)] == [0, 1, 3, 4]


def test_the_special_weight_overflows_as_observed() -> None:
    assert wrap_int64(QuotaSettings().default_quota_max["cpu"]) == -600
    assert wrap_int64(2**63 - 1) == 2**63 - 1
    assert wrap_int64(2**63) == -(2**63)
