"""The model of run times of another package; one that cannot be chosen is named in one line."""

from __future__ import annotations

from typing import Final

import pytest

from queue_insight.forecast.model_loading import RUN_TIME_GROUP, load_run_time_model
from queue_insight.forecast.run_times import SurvivalRunTimes
from shared_api.program_flags import ConfigurationError
from tests.queue_scheduler.offered_packages import offer

HERE: Final = "tests.queue_insight.forecast.test_model_loading"


class OtherModel(SurvivalRunTimes):
    """Stands for the model of run times of another package."""


def test_the_run_time_model_of_another_package_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    assert load_run_time_model() is SurvivalRunTimes
    offer(monkeypatch, (RUN_TIME_GROUP, "Other", f"{HERE}:OtherModel"))
    assert type(load_run_time_model()()).__name__ == OtherModel.__name__


@pytest.mark.parametrize(
    ("points", "want"),
    [
        pytest.param(
            (("One", f"{HERE}:OtherModel"), ("Two", f"{HERE}:OtherModel")),
            "more than one package offers koord_queue.run_time_models: One, Two",
            id="two models",
        ),
        pytest.param(
            (("Broken", "no.such.module:model"),),
            r"run_time_models 'Broken' \(no.such.module:model\) cannot be loaded",
            id="one that cannot be loaded",
        ),
    ],
)
def test_a_run_time_model_that_cannot_be_chosen_is_named(
    monkeypatch: pytest.MonkeyPatch, points: tuple[tuple[str, str], ...], want: str
) -> None:
    offer(monkeypatch, *((RUN_TIME_GROUP, name, value) for name, value in points))
    with pytest.raises(ConfigurationError, match=want):
        load_run_time_model()
