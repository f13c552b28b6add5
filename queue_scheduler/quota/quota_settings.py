"""The settings of quotas, and which of them are compatible.

For ElasticQuotas the settings describe the koord-scheduler that judges the pods later: which
rounding its release uses, and which of its arguments and feature gates are on. None of this can be
read from the cluster, so it is configuration.

Source: koordinator, pkg/scheduler/apis/config/types.go (`ElasticQuotaArgs`) and pkg/features.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

MAX_INT64: Final = 2**63 - 1
SPECIAL_QUOTA_MAX: Final = MAX_INT64 // 5
"""Default of koord-scheduler's defaultQuotaGroupMax and systemQuotaGroupMax, in whole units."""


class QuotaMode(StrEnum):
    """What a quota is compared with, in addition to max at every ancestor."""

    RUNTIME = "runtime"
    """What koord-scheduler would grant with the demand added; foreign pods count, too."""
    MAX = "max"
    """max x oversell rate; only units count."""
    MIN = "min"
    """min, where a key that max has and min lacks is 0; foreign pods count, too."""


class QuotaKind(StrEnum):
    """Which objects define the quotas; all but the first are compared in `max` mode."""

    ELASTIC_QUOTA = "ElasticQuota"
    TREE = "ElasticQuotaTree"
    """Jobs are counted, non-preemptible units must fit min on every level, and quotas keep part of
    their min from their siblings (`QuotaSpec.kept`)."""
    RESOURCE_QUOTA = "ResourceQuota"
    """No parents; foreign pods count, too."""


class Rounding(StrEnum):
    """How koord-scheduler turns weighted shares into whole units."""

    HALF_UP = "half_up"
    """Up to v1.8.0: each share rounded on its own; units can get lost or appear."""
    LARGEST_REMAINDER = "largest_remainder"
    """Later releases: the remainder goes to the largest fractions, ties by name."""


class SpecialQuotas(StrEnum):
    """Whether the default and system quota take part in the root's division."""

    OBSERVED = "observed"
    """The weight of a quota without one is its max, as in koord-scheduler."""
    IGNORED = "ignored"


class QuotaSettingsError(ValueError):
    """Contradicting settings; the text names them, and a valid choice."""


def default_special_max() -> dict[str, int]:
    """Return the max that koord-scheduler gives its default and system quota, in base units."""
    return {"cpu": SPECIAL_QUOTA_MAX * 1000, "memory": SPECIAL_QUOTA_MAX}


def wrap_int64(value: int) -> int:
    """Return the value that a signed 64-bit integer holds after overflowing."""
    return (value + 2**63) % 2**64 - 2**63


def rounding_of(koordinator_version: str) -> Rounding:
    """Return the rounding of a Koordinator release ("1.8", "v1.8.0", "1.9.1", "HEAD").

    Raises:
        QuotaSettingsError: the text is not a release.
    """
    text = koordinator_version.removeprefix("v")
    if text.upper() == "HEAD":
        return Rounding.LARGEST_REMAINDER
    numbers = text.split("-")[0].split(".")
    if not all(part.isdecimal() and part.isascii() for part in numbers):
        raise QuotaSettingsError(
            f"koordinatorVersion {koordinator_version!r} is not a release such as '1.8' or 'v1.9.0'"
        )
    release = (*(int(part) for part in numbers), 0, 0)
    return Rounding.HALF_UP if release[:3] <= (1, 8, 0) else Rounding.LARGEST_REMAINDER


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSettings:
    """The settings of a quota plugin, with their defaults.

    `oversell_numerator / oversell_denominator` is the rate by which `max` may be exceeded in
    `max` mode; in the other modes it must be 1. `required_requests` are the resources that every
    pod must request if its quota's max has them.
    """

    mode: QuotaMode = QuotaMode.RUNTIME
    kind: QuotaKind = QuotaKind.ELASTIC_QUOTA
    koordinator_version: str = "1.8"
    rounding_override: Rounding | None = None
    scale_min: bool = True
    check_parent: bool = False
    special_quotas: SpecialQuotas = SpecialQuotas.OBSERVED
    default_quota_max: dict[str, int] = field(default_factory=default_special_max)
    system_quota_max: dict[str, int] = field(default_factory=default_special_max)
    foreign_pending: bool = True
    oversell_numerator: int = 1
    oversell_denominator: int = 1
    guarantee_usage: bool = False
    multi_quota_tree: bool = False
    required_requests: frozenset[str] = frozenset()
    cap_by_total: bool = True

    def __post_init__(self) -> None:
        """Check that the settings are compatible.

        Raises:
            QuotaSettingsError: They are not; the text names them.
        """
        rounding_of(self.koordinator_version)
        if self.oversell_denominator <= 0 or self.oversell_numerator <= 0:
            raise QuotaSettingsError("the oversell rate must be greater than 0")
        if self.kind is not QuotaKind.ELASTIC_QUOTA and self.mode is not QuotaMode.MAX:
            raise QuotaSettingsError(f"{self.kind.value} has no mode {self.mode.value!r}")
        if self.mode is not QuotaMode.MAX and self.oversell_numerator != self.oversell_denominator:
            raise QuotaSettingsError(
                f"the oversell rate must be 1 in mode {self.mode.value!r}: koord-scheduler would"
                " refuse the pods of what was oversold; it may differ only in mode 'max'"
            )

    @property
    def rounding(self) -> Rounding:
        """The rounding in force: the override, else that of the release."""
        return self.rounding_override or rounding_of(self.koordinator_version)

    @property
    def counts_foreign(self) -> bool:
        """Whether foreign pods count."""
        return self.mode is not QuotaMode.MAX or self.kind is QuotaKind.RESOURCE_QUOTA

    def oversold(self, amount: int) -> int:
        """Return amount x oversell rate, rounded down."""
        return amount * self.oversell_numerator // self.oversell_denominator
