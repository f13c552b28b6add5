"""Arguments of ElasticQuotaV2: what each sets, and how an invalid one is reported."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from queue_scheduler.plugins.elastic_quota_arguments import read_arguments
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings, Rounding, SpecialQuotas

ONE = Fraction(1)


def test_the_defaults_are_the_settings_defaults() -> None:
    assert read_arguments({}, ONE) == (QuotaSettings(), None)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({"mode": "max"}, QuotaSettings(mode=QuotaMode.MAX)),
        ({"mode": "min"}, QuotaSettings(mode=QuotaMode.MIN)),
        ({"koordinatorVersion": "1.9"}, QuotaSettings(koordinator_version="1.9")),
        (
            {"rounding": "half_up"},
            QuotaSettings(rounding_override=Rounding.HALF_UP),
        ),
        ({"enableMinQuotaScale": False}, QuotaSettings(scale_min=False)),
        ({"enableCheckParentQuota": True}, QuotaSettings(check_parent=True)),
        ({"specialQuotas": "ignored"}, QuotaSettings(special_quotas=SpecialQuotas.IGNORED)),
        ({"defaultQuotaGroupMax": {"cpu": 2}}, QuotaSettings(default_quota_max={"cpu": 2000})),
        ({"systemQuotaGroupMax": {"cpu": "1"}}, QuotaSettings(system_quota_max={"cpu": 1000})),
        ({"foreignPending": False}, QuotaSettings(foreign_pending=False)),
        ({"guaranteeUsage": True}, QuotaSettings(guarantee_usage=True)),
        ({"multiQuotaTree": True}, QuotaSettings(multi_quota_tree=True)),
        (
            {"requiredRequests": ["cpu"]},
            QuotaSettings(required_requests=frozenset({"cpu"})),
        ),
    ],
)
def test_each_argument_sets_its_setting(arguments: dict[str, Any], want: QuotaSettings) -> None:
    assert read_arguments(arguments, ONE) == (want, None)


def test_the_expected_capacity_is_read_in_base_units() -> None:
    _, expected = read_arguments({"expectedCapacity": {"cpu": "1500m", "memory": "1Ki"}}, ONE)
    assert expected == {"cpu": 1500, "memory": 1024}


def test_the_expected_capacity_may_have_deprecated_names_as_nodes_may() -> None:
    _, expected = read_arguments({"expectedCapacity": {"koordinator.sh/batch-cpu": 8000}}, ONE)
    assert expected == {"kubernetes.io/batch-cpu": 8000}


def test_the_oversell_rate_comes_from_the_command_line() -> None:
    settings, _ = read_arguments({"mode": "max"}, Fraction(3, 2))
    assert (settings.oversell_numerator, settings.oversell_denominator) == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "rate", "says"),
    [
        pytest.param({"mod": "max"}, ONE, "`mod`", id="unknown key"),
        pytest.param({"mode": "most"}, ONE, r"'most'.*\$\.mode", id="unknown mode"),
        pytest.param({"mode": "most"}, ONE, "valid are runtime, max, min$", id="the modes"),
        pytest.param(
            {"rounding": "up"}, ONE, "valid are half_up, largest_remainder$", id="the roundings"
        ),
        pytest.param({"foreignPending": "yes"}, ONE, "foreignPending", id="wrong type"),
        pytest.param({"koordinatorVersion": "new"}, ONE, "'new' is not a release", id="version"),
        pytest.param({"expectedCapacity": {"cpu": "much"}}, ONE, "cpu", id="not a quantity"),
        pytest.param(
            {"requiredRequests": ["requests.cpu"]}, ONE, "no container .* name cpu", id="prefixed"
        ),
        pytest.param({"requiredRequests": [""]}, ONE, "no resource", id="no name"),
        pytest.param({}, Fraction(2), "only in mode 'max'", id="oversold in runtime mode"),
    ],
)
def test_an_invalid_argument_is_named(arguments: dict[str, Any], rate: Fraction, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        read_arguments(arguments, rate)
    assert str(caught.value).startswith("pluginConfigs.ElasticQuotaV2: ")
    assert "\n" not in str(caught.value)
