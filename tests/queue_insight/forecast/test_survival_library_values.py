"""Survival estimates and conformal quantiles, against SciPy and NumPy.

Their answers were written once, by `make_library_values.py` beside this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from queue_insight.forecast.calibration import censored_quantile
from queue_insight.forecast.survival import Curve, Group, hazards

LEVELS = (0.1, 0.5, 0.9)
_VALUES: dict[str, Any] = json.loads(
    (Path(__file__).parent / "library_values.json").read_text(encoding="utf-8")
)


def samples(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "sample", [pytest.param(each, id=f"sample {n}") for n, each in enumerate(_VALUES[name])]
    )


@samples("survival")
def test_survival_is_that_of_scipy(sample: dict[str, Any]) -> None:
    group = Group()
    for value, is_cut in sample["runs"]:
        group.add(value, 1.0, is_cut=is_cut)
    curve = Curve(hazards(group, None, 0.0))
    got = [curve.survival(at) for at in sample["at"]]
    assert got == pytest.approx(sample["survival"], abs=1e-6)


@samples("quantiles")
def test_conformal_quantiles_are_those_of_numpy(sample: dict[str, Any]) -> None:
    values = [(value, True) for value in sample["values"]]
    assert [censored_quantile(values, level) for level in LEVELS] == sample["quantiles"]


@samples("censoredQuantiles")
def test_quantiles_of_censored_values_are_where_survival_of_scipy_falls_so_far(
    sample: dict[str, Any],
) -> None:
    values = [(value, not is_cut) for value, is_cut in sample["values"]]
    assert [censored_quantile(values, level) for level in LEVELS] == sample["quantiles"]
